import { BotmeshError, CoordinationUnavailableError } from '@botmesh/core/spi';

/** The server answers, but it is not (or not yet, or no longer) the one to talk to: connect anew. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  READONLY: 'it is a replica now',
  LOADING: 'it is reading its data from disk',
  MASTERDOWN: 'it is a replica that has lost its primary',
  CLUSTERDOWN: 'its cluster is not whole',
  NOAUTH: 'it wants a login',
  WRONGPASS: 'it refuses the login',
};

/** The server cannot do it now, and connecting anew would not help. */
const NOT_NOW: Readonly<Record<string, string>> = {
  NOREPLICAS: 'it has fewer replicas than min-replicas-to-write asks for',
  BUSY: 'another script runs for long',
  OOM: 'its memory is used up, and maxmemory-policy is noeviction: give it more memory',
  MISCONF: 'it cannot write to its disk, and refuses writes until it can',
  TRYAGAIN: 'a slot is being moved',
  MOVED: 'a slot has moved, and the client was sent on too often',
  ASK: 'a slot is being moved, and the client was sent on too often',
};

/** The code of an error that the server replied, such as `READONLY`; undefined for errors of client and network. */
export function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // Before Redis 7, what a command in a script replied stands inside the script's own error.
  const inScript = /: -([A-Z]{2,}) /.exec(error.message)?.[1];
  return inScript ?? /^([A-Z]{2,})(?: |$)/.exec(error.message)?.[1];
}

export interface Judgement {
  readonly error: unknown;
  /** Whether the connection is of no use any more. */
  readonly isLinkBroken: boolean;
}

/**
 * `cause` without what it carries of a command: libraries hang the arguments on their errors, and servers put them into
 * the message, so that passwords, texts of messages and names of chats would get into logs.
 */
export function withoutArguments(cause: unknown): unknown {
  if (!(cause instanceof Error) || cause instanceof BotmeshError) return cause;
  const [first] = cause instanceof AggregateError ? (cause.errors as unknown[]) : [];
  const told = cause.message || (first instanceof Error ? first.message : '');
  const message = told.replace(/,? with args beginning with:.*/s, '.');
  const plain = new Error(message) as NodeJS.ErrnoException;
  plain.name = cause.name;
  const { code } = cause as NodeJS.ErrnoException;
  if (typeof code === 'string') plain.code = code;
  const frames = cause.stack?.indexOf('\n    at ') ?? -1;
  plain.stack = `${cause.name}: ${message}${frames < 0 ? '' : cause.stack!.slice(frames)}`;
  return plain;
}

/** What an error says, to stand within a sentence: without what it carries of a command, and the full stop at its end. */
export function clauseOf(raw: unknown): string {
  const cause = withoutArguments(raw);
  if (!(cause instanceof Error)) return String(cause);
  const { code } = cause as NodeJS.ErrnoException;
  return (cause.message || code || cause.name).replace(/\.+$/, '');
}

/** What a failed call means: whether to connect anew, and what to tell the caller. */
export function judge(where: string, raw: unknown): Judgement {
  const cause = withoutArguments(raw);
  const code = replyCode(cause);
  if (code === undefined) {
    return { error: unavailable(`No answer from ${where}: ${clauseOf(cause)}.`, cause), isLinkBroken: true };
  }
  const elsewhere = ELSEWHERE[code];
  if (elsewhere !== undefined) return { error: refused(where, code, elsewhere, cause), isLinkBroken: true };
  const notNow = NOT_NOW[code];
  if (notNow !== undefined) return { error: refused(where, code, notNow, cause), isLinkBroken: false };
  return { error: cause, isLinkBroken: false };
}

export function unavailable(message: string, cause?: unknown, hasNoRoom = false): CoordinationUnavailableError {
  return new CoordinationUnavailableError('unavailable', message, { cause: withoutArguments(cause), hasNoRoom });
}

function refused(where: string, code: string, why: string, cause: unknown): CoordinationUnavailableError {
  return unavailable(`${where} answered ${code}: ${why}.`, cause, code === 'OOM');
}
