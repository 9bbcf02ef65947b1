import type { IncomingMessage } from '@botmesh/core/spi';
import { chatName } from './chat-name.js';
import type { CloudMessage } from './cloud.js';
import { type Explained, explain } from './error-codes.js';
import { kindOf, textOf } from './kinds.js';

/** What `ctx.message.raw` is: see `received`. */
export interface Received {
  /** The number of the app that it was written to, by Meta's id. */
  readonly phoneNumberId: string;
  /** As Meta sent it. */
  readonly message: CloudMessage;
  /** How who wrote it calls themselves. */
  readonly profile?: { readonly name?: string; readonly username?: string };
}

/** What became of a message that was sent. */
export interface Status {
  readonly chat: string;
  /** The message's id, as `onSent` told it. */
  readonly id: string;
  /** `sent`, `delivered`, `read`, `played`, `failed`, or what Meta invents next. They may come in any order, and twice. */
  readonly status: string;
  /** By Meta's clock, in milliseconds since 1970. Undefined where it said none. */
  readonly atMs: number | undefined;
  /** The idempotency key of the reply, as `SendContext.key`. Undefined for what something else sent. */
  readonly key: string | undefined;
  /** Why it failed, in the words of this package. */
  readonly errors: readonly Explained[];
  /** As Meta sent it. */
  readonly raw: Readonly<Record<string, unknown>>;
}

/** What a call of Meta brings that is no message of a chat and no status, such as the approval of a template. */
export interface Update {
  /** Meta's name for it: `message_template_status_update`. */
  readonly field: string;
  readonly value: unknown;
}

/** What a call brings, in its order. */
export interface Brought {
  readonly messages: readonly IncomingMessage[];
  readonly statuses: readonly Status[];
  readonly updates: readonly Update[];
}

type Json = Readonly<Record<string, unknown>>;

/** Everything a body of Meta has in it, or what is wrong with it. Never throws, and drops nothing. */
export function readUpdates(body: Json): Brought | string {
  if (body.object !== 'whatsapp_business_account') return "object: expected 'whatsapp_business_account'";
  if (!Array.isArray(body.entry)) return 'entry: expected an array';
  const found = { messages: [] as IncomingMessage[], statuses: [] as Status[], updates: [] as Update[] };
  for (const entry of body.entry as readonly unknown[]) {
    if (!isObject(entry) || !Array.isArray(entry.changes)) return 'entry.changes: expected an array';
    for (const change of entry.changes as readonly unknown[]) {
      if (!isObject(change) || typeof change.field !== 'string') return 'entry.changes.field: expected a string';
      readChange(change.field, change.value, found);
    }
  }
  return found;
}

interface Finds {
  readonly messages: IncomingMessage[];
  readonly statuses: Status[];
  readonly updates: Update[];
}

function readChange(field: string, value: unknown, { messages, statuses, updates }: Finds): void {
  const phoneNumberId =
    isObject(value) && isObject(value.metadata) ? textIn(value.metadata, 'phone_number_id') : undefined;
  if (field !== 'messages' || !isObject(value) || phoneNumberId === undefined) {
    updates.push({ field, value });
    return;
  }
  const strays: Record<string, unknown[]> = {};
  const read = (name: string, take: (item: Json) => boolean): void => {
    const items = value[name];
    if (items === undefined) return;
    const odd = (Array.isArray(items) ? (items as unknown[]) : [items]).filter(
      (item) => !isObject(item) || !take(item),
    );
    if (odd.length > 0) strays[name] = odd;
  };
  read('messages', (item) => {
    const message = readMessage(phoneNumberId, item, value.contacts);
    if (message !== undefined) messages.push(message);
    return message !== undefined;
  });
  read('statuses', (item) => {
    const status = readStatus(phoneNumberId, item);
    if (status !== undefined) statuses.push(status);
    return status !== undefined;
  });
  read('errors', () => false);
  const isBare = value.messages === undefined && value.statuses === undefined;
  if (isBare) updates.push({ field, value });
  else if (Object.keys(strays).length > 0) updates.push({ field, value: { metadata: value.metadata, ...strays } });
}

/** Undefined for what has no id or no chat. Of whatever kind else it is, it is a message. */
function readMessage(phoneNumberId: string, message: Json, contacts: unknown): IncomingMessage | undefined {
  const id = textIn(message, 'id');
  const from = textIn(message, 'from') ?? textIn(message, 'from_user_id');
  const group = textIn(message, 'group_id');
  if (id === undefined || (from === undefined && group === undefined)) return undefined;
  const kind = kindOf(message);
  const profile = profileOf(message, contacts);
  return {
    chat: group === undefined ? chatName(phoneNumberId, from ?? '') : chatName(phoneNumberId, group, { isGroup: true }),
    id,
    text: kind === 'unknown' ? '' : textOf(message as unknown as CloudMessage),
    ...(from === undefined ? {} : { from }),
    kind,
    raw: { phoneNumberId, message, ...(profile === undefined ? {} : { profile }) },
  };
}

/** Of the contacts of a batch, that of who wrote the message. */
function profileOf(message: Json, contacts: unknown): Json | undefined {
  const all = Array.isArray(contacts) ? (contacts as unknown[]).filter(isObject) : [];
  const isWriter = ({ wa_id: number, user_id: user }: Json): boolean =>
    (number !== undefined && number === message.from) || (user !== undefined && user === message.from_user_id);
  const profile = (all.find(isWriter) ?? (all.length === 1 ? all[0] : undefined))?.profile;
  return isObject(profile) ? profile : undefined;
}

function readStatus(phoneNumberId: string, raw: Json): Status | undefined {
  const [id, status] = [textIn(raw, 'id'), textIn(raw, 'status')];
  const to = textIn(raw, 'recipient_id') ?? textIn(raw, 'recipient_user_id');
  if (id === undefined || status === undefined || to === undefined) return undefined;
  const seconds = Number(raw.timestamp ?? Number.NaN);
  const errors = Array.isArray(raw.errors) ? (raw.errors as unknown[]).filter(isObject) : [];
  return {
    chat: chatName(phoneNumberId, to, { isGroup: raw.recipient_type === 'group' }),
    id,
    status,
    atMs: Number.isFinite(seconds) ? seconds * 1000 : undefined,
    key: textIn(raw, 'biz_opaque_callback_data'),
    errors: errors.flatMap(({ code }) => (typeof code === 'number' ? [explain(code)] : [])),
    raw,
  };
}

/**
 * What Meta sent for this message, typed. Undefined for a message of another provider or a job. For kind `unknown`,
 * `message.type` is none of the listed.
 */
export function received(message: { readonly raw: unknown }): Received | undefined {
  const { raw } = message;
  return isObject(raw) && typeof raw.phoneNumberId === 'string' && isObject(raw.message)
    ? (raw as unknown as Received)
    : undefined;
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A text that is not empty. */
function textIn(from: Json, name: string): string | undefined {
  const value = from[name];
  return typeof value === 'string' && value !== '' ? value : undefined;
}
