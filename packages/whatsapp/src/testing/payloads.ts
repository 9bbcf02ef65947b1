import { createHmac, randomUUID } from 'node:crypto';

type Json = Readonly<Record<string, unknown>>;

/** One thing that Meta tells: a message, a status, or what it likes. */
export interface Change {
  readonly field?: string;
  readonly value: Json;
}

/** An id as WhatsApp gives them. */
export function wamid(): string {
  return `wamid.${Buffer.from(randomUUID()).toString('base64')}`;
}

/** A text as somebody writes it. More members make it a reply, or one of a group. */
export function textMessage(from: string, body: string, more: Json = {}): Json {
  return { from, id: wamid(), timestamp: seconds(), type: 'text', text: { body }, ...more };
}

/** A button that somebody presses. */
export function buttonReply(from: string, id: string, title: string, more: Json = {}): Json {
  const interactive = { type: 'button_reply', button_reply: { id, title } };
  return { from, id: wamid(), timestamp: seconds(), type: 'interactive', interactive, ...more };
}

/** What became of a message that was sent. */
export function status(id: string, to: string, what: string, more: Json = {}): Json {
  return { id, recipient_id: to, status: what, timestamp: seconds(), ...more };
}

/** What is told of one number, at once. */
export function change(
  phoneNumberId: string,
  told: { messages?: readonly Json[]; statuses?: readonly Json[] },
): Change {
  const metadata = { display_phone_number: '15550001111', phone_number_id: phoneNumberId };
  const contacts = told.messages?.map(({ from }) => ({ profile: { name: 'Somebody' }, wa_id: from }));
  const value = { messaging_product: 'whatsapp', metadata, ...(contacts === undefined ? {} : { contacts }), ...told };
  return { field: 'messages', value };
}

/** The body of one call: an entry for each array of changes. In ASCII, as Meta sends it. */
export function bodyOf(...entries: readonly (readonly Change[])[]): string {
  const entry = entries.map((changes, at) => ({
    id: `10000000000000${at}`,
    changes: changes.map(({ field = 'messages', value }) => ({ value, field })),
  }));
  return escaped(JSON.stringify({ object: 'whatsapp_business_account', entry }));
}

/** Every character beyond ASCII as Meta writes it. */
export function escaped(json: string): string {
  return json.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** The headers by which Meta signs a body, byte for byte. */
export function signedHeaders(appSecret: string, body: string | Uint8Array): Record<string, string> {
  const digest = createHmac('sha256', appSecret).update(body).digest('hex');
  return { 'content-type': 'application/json', 'x-hub-signature-256': `sha256=${digest}` };
}

function seconds(): string {
  return String(Math.floor(Date.now() / 1000));
}
