import { ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import { DatabaseError } from './client.js';

/** Codes with which the server says that it is not the one to talk to (any longer): connect anew. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  '25006': 'it takes no writes: it is a standby now, or default_transaction_read_only is on',
  '57P01': 'it is being shut down, or an operator ended the connection',
  '57P02': 'it restarts after a crash',
  '57P03': 'it is starting up or shutting down',
  '57P05': 'the connection was idle for too long',
  '25P03': 'the connection was idle in a transaction for too long',
};

/** Codes with which it says that it cannot do it now. Connecting anew would not help. */
const NOT_NOW: Readonly<Record<string, string>> = {
  '40001': 'another transaction was in the way',
  '40P01': 'it ended a deadlock',
  '53000': 'it lacks resources',
  '53100': 'its disk is full',
  '53200': 'its memory is used up',
  '53300':
    'all its connections are taken, or those of this role or database: raise max_connections or their limit, or use a pooler',
  '55P03': 'a lock was not free in time: pg_stat_activity shows which transaction stays open',
  '57014': 'the statement took too long, or an operator cancelled it',
};

/**
 * Codes that tell of what somebody took away since the start. Each call asks again all the same: it may come back.
 */
const GONE: readonly { readonly state: RegExp; readonly why: string }[] = [
  { state: /^28/, why: 'it refuses the user or password' },
  { state: /^3D000/, why: 'there is no database of that name' },
  { state: /^42501/, why: 'the user lacks a right, or row security keeps rows from it' },
  {
    state: /^(?:42P01|42883|3F000|42703)/,
    why: 'what the package needs in its schema is gone: run migrate() where all of it is, or put it back',
  },
];

/** The SQLSTATE of an error that a server replied; undefined for errors of client and network. */
export function stateOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  if (typeof code !== 'string' || !/^[0-9A-Z]{5}$/.test(code)) return undefined;
  // Node has codes of five letters as well, such as EPIPE.
  return typeof severity === 'string' || error instanceof DatabaseError ? code : undefined;
}

/**
 * The same error without its details, which may have the values in them that were sent, and without what a library adds:
 * postgres puts the statement and all values beside the message.
 */
export function bare(cause: unknown): unknown {
  const state = stateOf(cause);
  if (state !== undefined) return new DatabaseError(state, messageOf(cause));
  if (!(cause instanceof Error)) return cause;
  if (cause instanceof ConfigError || cause instanceof CoordinationUnavailableError) return cause;
  const { code } = cause as NodeJS.ErrnoException;
  return Object.assign(new Error(messageOf(cause)), code === undefined ? {} : { code });
}

export function messageOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const { code } = cause as NodeJS.ErrnoException;
  const [first] = cause instanceof AggregateError ? (cause.errors as unknown[]) : [];
  return cause.message || (first instanceof Error ? first.message : '') || code || cause.name;
}

export interface Judgement {
  readonly error: unknown;
  /**
   * - `kept`: the connection is good for more
   * - `broken`: it is of no use any more
   * - `elsewhere`: nor is any other that was made before
   */
  readonly link: 'kept' | 'broken' | 'elsewhere';
}

/** What a failed call means: whether to connect anew, and what to tell the caller. */
export function judge(where: string, cause: unknown): Judgement {
  if (cause instanceof ConfigError || cause instanceof CoordinationUnavailableError) {
    return { error: cause, link: 'kept' };
  }
  const state = stateOf(cause);
  if (state === undefined) {
    return { error: unavailable(`No answer from ${where}: ${messageOf(cause)}.`, bare(cause)), link: 'broken' };
  }
  const elsewhere = ELSEWHERE[state];
  if (elsewhere !== undefined) return { error: refused(where, state, elsewhere, cause), link: 'elsewhere' };
  if (state.startsWith('08')) return { error: refused(where, state, messageOf(cause), cause), link: 'broken' };
  const notNow = NOT_NOW[state] ?? (/^(?:53|58|XX)/.test(state) ? messageOf(cause) : undefined);
  if (notNow !== undefined) return { error: refused(where, state, notNow, cause), link: 'kept' };
  const gone = GONE.find((each) => each.state.test(state));
  if (gone !== undefined) {
    return { error: refused(where, state, `${gone.why} (${messageOf(cause)})`, cause), link: 'kept' };
  }
  return { error: bare(cause), link: 'kept' };
}

/** What the server said, where that tells of something that was taken away: before the start it never was there. */
export function goneCause(error: unknown): DatabaseError | undefined {
  const cause = error instanceof CoordinationUnavailableError ? error.cause : undefined;
  if (!(cause instanceof DatabaseError)) return undefined;
  return GONE.some(({ state }) => state.test(cause.code)) ? cause : undefined;
}

export function unavailable(message: string, cause?: unknown): CoordinationUnavailableError {
  return new CoordinationUnavailableError('unavailable', message, { cause });
}

function refused(where: string, state: string, why: string, cause: unknown): CoordinationUnavailableError {
  return unavailable(`${where} answered ${state}: ${why}.`, bare(cause));
}
