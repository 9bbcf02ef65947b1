import { BadInputError, NewerVersionError } from '../errors.js';
import type { IncomingMessage } from '../providers/provider.js';
import { RESERVED } from './reserved.js';

/** The format of a stored message. A replica that finds another one leaves the message for those who know it. */
export const ENVELOPE_VERSION = 1;

/** Work that a bot put into a chat's queue, where nobody wrote anything. */
export interface ChatJob {
  /** Whose: the name of a schedule, for which `bot.job` registered a handler. */
  readonly name: string;
  /** When it was due, in milliseconds since 1970. */
  readonly dueMs: number;
  /** Plain JSON data. */
  readonly data: unknown;
}

/** What a handler sees of a message. */
export interface Message {
  readonly chat: string;
  readonly id: string | undefined;
  /** Empty for a job. */
  readonly text: string;
  readonly from: string | undefined;
  /** What it is, by its provider's name. Undefined for what needs no name. */
  readonly kind: string | undefined;
  readonly raw: unknown;
  /** Undefined for what came from the platform. */
  readonly job: ChatJob | undefined;
}

/** Refuses what can never be taken in, naming the field. `job` is ours: what a platform sends has none, whatever it says. */
export function checkMessage(message: IncomingMessage, job?: ChatJob): Message {
  if (typeof message !== 'object' || message === null) throw new BadInputError('message: expected an object');
  const { chat, id, text, from, kind, raw } = message;
  if (typeof chat !== 'string' || chat === '') throw new BadInputError(`message.chat: ${wanted(chat, 'a non-empty')}`);
  if (chat.startsWith(RESERVED)) {
    throw new BadInputError(`message.chat: names that begin with '${RESERVED}' are the bot's own`);
  }
  if (typeof text !== 'string') throw new BadInputError(`message.text: ${wanted(text, 'a')}`);
  if (id !== undefined && (typeof id !== 'string' || id === '')) {
    throw new BadInputError(`message.id: ${wanted(id, 'no or a non-empty')}`);
  }
  if (from !== undefined && typeof from !== 'string')
    throw new BadInputError(`message.from: ${wanted(from, 'no or a')}`);
  if (kind !== undefined && typeof kind !== 'string')
    throw new BadInputError(`message.kind: ${wanted(kind, 'no or a')}`);
  return { chat, id, text, from, kind, raw, job };
}

export function encode(message: Message): string {
  const { chat, id, text, from, kind, raw, job } = message;
  try {
    return JSON.stringify({ v: ENVELOPE_VERSION, chat, id, text, from, kind, raw, job });
  } catch (cause) {
    const what = job === undefined ? 'message.raw' : `data of job '${job.name}'`;
    throw new BadInputError(`${what}: expected plain JSON data`, { cause });
  }
}

/** Reads a stored message. Throws on a body that is no message, or of a format this version does not know. */
export function decode(body: string): Message {
  const envelope = parse(body);
  if (envelope.v !== ENVELOPE_VERSION) {
    if (typeof envelope.v === 'number' && envelope.v > ENVELOPE_VERSION) {
      throw new NewerVersionError('stored message', envelope.v, ENVELOPE_VERSION);
    }
    const found = JSON.stringify(envelope.v) ?? 'none';
    throw new BadInputError(`stored message: format ${found}, this replica knows ${ENVELOPE_VERSION}`);
  }
  return checkMessage(envelope as unknown as IncomingMessage, envelope.job as ChatJob | undefined);
}

function parse(body: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // The cause would carry a piece of the text.
    throw new BadInputError('stored message: not JSON');
  }
  if (typeof value !== 'object' || value === null) throw new BadInputError('stored message: expected an object');
  return value as Record<string, unknown>;
}

function wanted(found: unknown, article: string): string {
  const what = found === null ? 'null' : found === '' ? 'an empty one' : typeof found;
  return `expected ${article} string, found ${what}`;
}
