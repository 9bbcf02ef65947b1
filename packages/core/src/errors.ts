/**
 * Every error botmesh throws, by its stable `code`. `docs/errors.md` explains each one and is checked against
 * this table in both directions.
 */
export const ERROR_CODES = {
  'lease-lost': 'A turn or leadership is no longer surely held, or its ticket lost its place.',
  unavailable: 'The coordination backend could not be reached in time.',
  timeout: "The caller's own time limit ran out while its ticket waited.",
  'stale-fence': 'A state write came with an older fence than one already seen.',
  config: 'An option has a value that cannot work.',
  'config-mismatch': 'This replica is set up differently from the replicas already in the mesh.',
  'not-started': 'A call came before start().',
  stopped: 'A call came after stop(), or after crash().',
  'ticket-unknown': 'A ticket that this replica did not hand out.',
  'ticket-used': 'A ticket whose turn was already acquired, released or withdrawn.',
  'bad-input': 'An argument has the wrong type or shape.',
  'too-long': 'A message is longer than maxBodyBytes, or does not get through to the backend.',
  delivery: 'A provider could not deliver a reply.',
  'delivery-unknown': 'A provider does not know whether the platform has a reply.',
  middleware: 'Middleware called next() more than once.',
  'turn-limit': 'A handler ran for longer than maxTurnMs, or a scheduled job for longer than maxRunMs.',
  'invalid-state': "Stored or new state does not fit the bot's schema for it.",
  'newer-version': 'A stored message or state was written by a newer version than this replica knows.',
  cancelled: 'The running turn of a chat was cancelled by a call.',
  'superseded-by-newer': 'A newer message of the chat interrupted the handlers.',
  'rate-limited': 'The platform asked for a pause between sends.',
} as const;

export type ErrorCode = keyof typeof ERROR_CODES;

/** What every error of botmesh has: a stable {@link ErrorCode} to branch on. */
export abstract class BotmeshError extends Error {
  abstract readonly code: ErrorCode;
}

/**
 * Why a turn or leadership ended before its holder let it go.
 *
 * - `expired`: no heartbeat was answered in time, so this replica can no longer be sure (also after `crash()`)
 * - `superseded`: the store counts this replica's epoch as dead, or the place was lost in a server change
 * - `replaced`: a newer start took this `replicaId`
 * - `stopped`: `stop()` ended it, or its holder released it itself
 */
export type LeaseLostReason = 'expired' | 'superseded' | 'replaced' | 'stopped';

const LEASE_LOST: Record<LeaseLostReason, string> = {
  expired: 'no heartbeat was answered in time, so another replica may soon be granted it',
  superseded: 'this replica was presumed dead, or the place was lost in a server change',
  replaced: 'a newer start took this replicaId',
  stopped: 'it was ended on this replica',
};

/** What was held is held no more: stop side effects. Take a new ticket if the work still matters. */
export class LeaseLostError extends BotmeshError {
  override readonly name = 'LeaseLostError';
  readonly code = 'lease-lost';
  readonly reason: LeaseLostReason;

  constructor(reason: LeaseLostReason, detail?: string, options?: ErrorOptions) {
    super(`Lease lost (${reason}): ${detail ?? LEASE_LOST[reason]}.`, options);
    this.reason = reason;
  }
}

/**
 * The backend did not answer (`unavailable`), or the caller's own limit ran out first (`timeout`: the backend may be
 * well, the chat is merely busy). Trying again later is right for both.
 */
export class CoordinationUnavailableError extends BotmeshError {
  override readonly name = 'CoordinationUnavailableError';
  readonly code: 'timeout' | 'unavailable';
  /** The backend refused the request whole because it has no room: nothing of it was done. What makes room may be done. */
  readonly hasNoRoom: boolean;

  constructor(code: 'timeout' | 'unavailable', message: string, options?: ErrorOptions & { hasNoRoom?: boolean }) {
    super(message, options);
    this.code = code;
    this.hasNoRoom = options?.hasNoRoom === true;
  }
}

/** A write to a chat's state carried an older fence than one already seen: its turn is over, nothing was written. */
export class StaleFenceError extends BotmeshError {
  override readonly name = 'StaleFenceError';
  readonly code = 'stale-fence';

  readonly fence: number;
  readonly newestFence: number;

  constructor(fence: number, newestFence: number) {
    super(`State not written: fence ${fence} is older than ${newestFence}. The turn it belongs to is over.`);
    this.fence = fence;
    this.newestFence = newestFence;
  }
}

/** An option that cannot work (`config`), or one that differs from the mesh's (`config-mismatch`): fix it, then start again. */
export class ConfigError extends BotmeshError {
  override readonly name = 'ConfigError';
  readonly code: 'config' | 'config-mismatch';

  constructor(message: string, code: 'config' | 'config-mismatch' = 'config', options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A call out of order: before `start()` or after `stop()`. */
export class LifecycleError extends BotmeshError {
  override readonly name = 'LifecycleError';
  readonly code: 'not-started' | 'stopped';

  constructor(code: 'not-started' | 'stopped', message: string) {
    super(message);
    this.code = code;
  }
}

/** A ticket that cannot be acquired here: never handed out by this replica, or used up. */
export class TicketError extends BotmeshError {
  override readonly name = 'TicketError';
  readonly code: 'ticket-unknown' | 'ticket-used';

  constructor(code: 'ticket-unknown' | 'ticket-used', message: string) {
    super(message);
    this.code = code;
  }
}

/** An argument of the wrong type or shape. The message names the argument, what was given and what is expected. */
export class BadInputError extends BotmeshError {
  override readonly name: string = 'BadInputError';
  readonly code: 'bad-input' | 'too-long' = 'bad-input';
}

/** A message, with its key and id, that is longer than the mesh takes in. The same one again fares no better. */
export class TooLongError extends BadInputError {
  override readonly name = 'TooLongError';
  override readonly code = 'too-long';
}

/** A provider could not deliver. `retryAfterMs` is set when the platform said when to try again. */
export class DeliveryError extends BotmeshError {
  override readonly name = 'DeliveryError';
  readonly code = 'delivery';
  readonly retryAfterMs: number | undefined;

  constructor(message: string, options?: ErrorOptions & { retryAfterMs?: number }) {
    super(message, options);
    this.retryAfterMs = options?.retryAfterMs;
  }
}

/**
 * For providers: a reply left, and the platform did not say whether it has it. With `onUnknownSend` on record, the bot does
 * what that says, and tells of it by `unknownSend`.
 */
export class DeliveryUnknownError extends BotmeshError {
  override readonly name = 'DeliveryUnknownError';
  readonly code = 'delivery-unknown';
}

/** Middleware called `next()` twice in one turn. */
export class MiddlewareError extends BotmeshError {
  override readonly name = 'MiddlewareError';
  readonly code = 'middleware';
}

/**
 * A handler ran for longer than the Bot's `maxTurnMs`: its signal was aborted with this, and its replies are refused. Or a
 * scheduled job for longer than its `maxRunMs`.
 */
export class TurnLimitError extends BotmeshError {
  override readonly name = 'TurnLimitError';
  readonly code = 'turn-limit';
  readonly maxTurnMs: number;

  /** `job` is the name of a schedule. */
  constructor(maxTurnMs: number, job?: string) {
    super(
      job === undefined
        ? `The handlers of one message ran for longer than maxTurnMs (${maxTurnMs}). The message is tried again, or given up.`
        : `The job '${job}' ran for longer than maxRunMs (${maxTurnMs}). Its signal is aborted; the next due time goes on.`,
    );
    this.maxTurnMs = maxTurnMs;
  }
}

/** What a validator has to say of one member. */
export interface StateIssue {
  /** Where it is, from the state down: `['basket', 0, 'price']`. */
  readonly path: readonly PropertyKey[];
  /** In the validator's words, which may have a value in them. */
  readonly message: string;
}

/**
 * A stored message or state was written by a newer version: of the bot's state, or of botmesh. A rollout is under way, or
 * was taken back. The message is left as it is, for those who know the version.
 */
export class NewerVersionError extends BotmeshError {
  override readonly name = 'NewerVersionError';
  readonly code = 'newer-version';
  /** What was found. */
  readonly version: number;
  /** What this replica knows. */
  readonly known: number;

  constructor(what: string, version: number, known: number) {
    super(`${what}: version ${version}, this replica knows ${known}. Finish the rollout.`);
    this.version = version;
    this.known = known;
  }
}

/**
 * State does not fit its schema. When it was read, no handler ran; when it was to be saved, nothing was. The message goes
 * on as after any failure: tried again, then parked.
 */
export class InvalidStateError extends BotmeshError {
  override readonly name = 'InvalidStateError';
  readonly code = 'invalid-state';
  /** Whose state: `ctx.state`, or the key of a hold. */
  readonly scope: string;
  /** The first member that is wrong, from the scope down: `ctx.state.basket[0].price`. */
  readonly path: string;
  readonly issues: readonly StateIssue[];

  constructor(scope: string, when: 'as stored' | 'as it is to be saved', issues: readonly StateIssue[]) {
    const path = pathOf(scope, issues[0]?.path ?? []);
    const more = issues.length > 1 ? `, and ${issues.length - 1} more` : '';
    super(`${scope} ${when} does not fit its schema at ${path}${more}. See issues; change it, the schema or migrate.`);
    this.scope = scope;
    this.path = path;
    this.issues = issues;
  }
}

function pathOf(scope: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === 'number' ? `${text}[${key}]` : `${text}.${String(key)}`),
    scope,
  );
}

/** Somebody called `bot.cancel` for the chat: the handler's signal has this as its reason. The message ends as cancelled. */
export class CancelledError extends BotmeshError {
  override readonly name = 'CancelledError';
  readonly code = 'cancelled';
  /** What the caller gave as the reason. */
  readonly reason: string;

  constructor(reason: string) {
    super('The turn was cancelled. Its message is not tried again.');
    this.reason = reason;
  }
}

/**
 * A newer message interrupted the handlers (`overlap: 'interrupt'`): the signal has this as its reason. They run again,
 * for this message and the newer one together.
 */
export class SupersededByNewerError extends BotmeshError {
  override readonly name = 'SupersededByNewerError';
  readonly code = 'superseded-by-newer';

  constructor() {
    super('A newer message interrupted the handlers. They run again with both.');
  }
}

/** For providers: the platform takes no more sends for a while, from this chat or from the whole account. */
export class RateLimitedError extends BotmeshError {
  override readonly name = 'RateLimitedError';
  readonly code = 'rate-limited';
  readonly retryAfterMs: number;
  readonly scope: 'chat' | 'account';

  constructor(retryAfterMs: number, options: ErrorOptions & { scope?: 'chat' | 'account' } = {}) {
    super(`The platform asked for a pause of ${retryAfterMs} ms before the next send.`, options);
    this.retryAfterMs = retryAfterMs;
    this.scope = options.scope ?? 'account';
  }
}

/**
 * Refuses options that are no object, and any that has a name of its own: most often one that is misspelt.
 *
 * @throws ConfigError naming `where` and what is known there
 */
export function checkOptionNames(where: string, options: unknown, known: Readonly<Record<string, true>>): void {
  if (typeof options !== 'object' || options === null) {
    throw new ConfigError(
      `${where}: expected an object of options, found ${options === null ? 'null' : typeof options}.`,
    );
  }
  if (Array.isArray(options)) throw new ConfigError(`${where}: expected an object of options, found a list.`);
  const unknown = Object.keys(options).find((name) => known[name] !== true);
  if (unknown === undefined) return;
  throw new ConfigError(`${where}: there is no option '${unknown}'. There are ${Object.keys(known).join(', ')}.`);
}

/** What was given, without its contents: a string may be somebody's message. */
export function shown(value: unknown): string {
  if (typeof value === 'string') return `a string of ${value.length} characters`;
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  return typeof value;
}
