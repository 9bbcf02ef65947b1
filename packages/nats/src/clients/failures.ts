import { BotmeshError, ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import type { ApiErrorJson } from './Link.js';

/** JetStream said no. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: number;
  /** NATS's own number of the reason. */
  readonly reason: number;

  constructor(what: string, { code, description, err_code }: ApiErrorJson) {
    super(`${what}: ${description ?? 'refused'} (${err_code ?? code})`);
    this.code = code;
    this.reason = err_code ?? 0;
  }
}

export const NO_STREAM = 10059;
export const NO_MESSAGE = 10037;
export const WRONG_LAST = new Set([10071, 10164]);
const NO_ROOM = new Set([10023, 10047, 10077, 10122]);
const OFF = new Set([10039, 10076, 10035]);
const OTHER_CONFIG = new Set([10058, 10065]);

export function notConnected(where: string): CoordinationUnavailableError {
  return new CoordinationUnavailableError('unavailable', `${where} is not connected.`);
}

/** What a server refuses for want of rights, as an error that says what to grant; undefined for anything else. */
export function rights(where: string, error: unknown): ConfigError | undefined {
  const { name, operation, subject } = (error ?? {}) as { name?: string; operation?: string; subject?: string };
  if (name !== 'PermissionViolationError') return undefined;
  const what = `The user may not ${operation === 'subscription' ? 'subscribe to' : 'publish to'} '${subject}' on ${where}.`;
  const help = 'Give it the rights in "Connections and rights" of the README of @botmesh/nats.';
  return new ConfigError(`${what} ${help}`, 'config', { cause: error });
}

/** What a failure means: an error that says what to change, or that the server cannot be reached now. */
export function explain(where: string, raw: unknown): Error {
  if (raw instanceof BotmeshError || raw instanceof ApiError) return raw;
  const cause = raw instanceof Error ? raw : new Error(String(raw));
  const inner = cause.cause instanceof Error ? cause.cause : undefined;
  const known = rights(where, cause) ?? rights(where, inner);
  if (known !== undefined) return known;
  const said = `${cause.name} ${cause.message} ${inner?.name ?? ''} ${inner?.message ?? ''}`;
  if (/authorization|authentication/i.test(said)) {
    return new ConfigError(
      `${where} refuses the login, or wants one. Check user and password, token, NKEY or credentials.`,
      'config',
      { cause },
    );
  }
  if (/certificate|self[- ]signed/i.test(said)) {
    return new ConfigError(
      `The certificate of ${where} is not trusted. Pass connection: { tls: { ca } } with the authority that signed it.`,
      'config',
      { cause },
    );
  }
  if (/no responders/i.test(said)) {
    return new ConfigError(
      `${where} has no JetStream for this account. Start nats-server with -js, and enable JetStream for the account.`,
      'config',
      { cause },
    );
  }
  return new CoordinationUnavailableError('unavailable', `${where} cannot be reached: ${cause.message}.`, { cause });
}

/** What a refusal of JetStream means to who called a step. */
export function judge(where: string, stream: string, raw: unknown): Error {
  if (!(raw instanceof ApiError)) return explain(where, raw);
  const { message, reason } = raw;
  if (OFF.has(reason)) {
    return new ConfigError(`${where} has no JetStream for this account (${message}). Enable it.`, 'config', {
      cause: raw,
    });
  }
  if (OTHER_CONFIG.has(reason)) {
    return new ConfigError(
      `The stream ${stream}, or one with its subjects, is set up in another way (${message}). Use another namespace, or remove that stream.`,
      'config-mismatch',
      { cause: raw },
    );
  }
  if (NO_ROOM.has(reason)) {
    const told = `${where} has no room left for ${stream} (${message}). Raise max_bytes of the stream, the limits of the account, or max_file_store of the server.`;
    return new CoordinationUnavailableError('unavailable', told, { cause: raw, hasNoRoom: true });
  }
  return new CoordinationUnavailableError('unavailable', `${where}: ${message}.`, { cause: raw });
}
