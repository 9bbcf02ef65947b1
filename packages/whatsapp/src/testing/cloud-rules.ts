import { randomBytes } from 'node:crypto';

/** How the Graph API answers what it does not do. */
export interface Refusal {
  readonly status: number;
  readonly body: { readonly error: Readonly<Record<string, unknown>> };
}

const STATUSES: Readonly<Record<number, number>> = {
  1: 500,
  2: 503,
  3: 500,
  4: 429,
  190: 401,
  80007: 429,
  130429: 429,
  131000: 500,
  131016: 500,
  131048: 429,
  131056: 429,
};

/** A refusal with this code, in the form that the Graph API gives it. */
export function refusalOf(code: number, status = STATUSES[code] ?? 400, details = 'See the error codes.'): Refusal {
  const error = {
    message: `(#${code}) Refused`,
    type: 'OAuthException',
    code,
    error_data: { messaging_product: 'whatsapp', details },
    fbtrace_id: randomBytes(8).toString('base64url'),
  };
  return { status, body: { error } };
}

/** What is wrong with a message to be sent, or undefined. */
export function checkSending(body: Readonly<Record<string, unknown>> | undefined): Refusal | undefined {
  if (body?.messaging_product !== 'whatsapp') return refusalOf(100, 400, 'messaging_product');
  const to = body.to ?? body.recipient;
  if (typeof to !== 'string' || to === '') return refusalOf(131009, 400, 'to');
  const type = body.type ?? 'text';
  if (typeof type !== 'string') return refusalOf(131008, 400, 'type');
  const content = body[type];
  if (typeof content !== 'object' || content === null) return refusalOf(131008, 400, 'type');
  return checkContent(type, content as Readonly<Record<string, unknown>>);
}

function checkContent(type: string, content: Readonly<Record<string, unknown>>): Refusal | undefined {
  if (type === 'text') {
    const text = content.body;
    if (typeof text !== 'string' || text === '' || text.length > 4096) return refusalOf(100, 400, 'text.body');
  }
  const isMedia = ['image', 'video', 'audio', 'document', 'sticker'].includes(type);
  if (isMedia && typeof content.id !== 'string' && typeof content.link !== 'string')
    return refusalOf(131009, 400, type);
  if (type === 'template' && typeof content.name !== 'string') return refusalOf(132001, 404, 'template.name');
  if (type === 'interactive') return checkInteractive(content);
  if (type === 'reaction' && typeof content.message_id !== 'string')
    return refusalOf(131009, 400, 'reaction.message_id');
  return undefined;
}

function checkInteractive({ body, action }: Readonly<Record<string, unknown>>): Refusal | undefined {
  const text = (body as { text?: unknown } | undefined)?.text;
  if (typeof text !== 'string' || text === '') return refusalOf(131009, 400, 'interactive.body');
  return typeof action === 'object' && action !== null ? undefined : refusalOf(131008, 400, 'interactive.action');
}
