/** What callers are told when the engine cannot do as they ask. */
import { BotmeshError, ConfigError, CoordinationUnavailableError, LifecycleError, TooLongError } from '../errors.js';
import { isLong, textOf } from './op-size.js';
import type { MeshConfig, Op } from './store.js';

/** The public call that an op was made for. */
export function callOf({ op, key }: Op): string {
  if (op === 'try') return 'tryLead()';
  return op === 'reserve' && key.startsWith('l:') ? 'lead()' : `${op}()`;
}

export function crashed(): LifecycleError {
  return new LifecycleError('stopped', 'This coordinator crashed: make a new one, as a new process would.');
}

export function unavailable(what: string, cause: Error): CoordinationUnavailableError {
  const why = told(cause) ?? 'the coordination backend cannot be reached.';
  const message = `${what}: ${why} It is tried again by itself; so can you.`;
  return new CoordinationUnavailableError('unavailable', message, { cause });
}

export function tooLong(op: Op, bytes: number, limit: number): TooLongError {
  const message = `${callOf(op)}: ${bytes} bytes with key and id: expected up to ${limit}. Shorten it, keep elsewhere what is long, or raise maxBodyBytes.`;
  return new TooLongError(message);
}

/** The backend answers heartbeats, but not a batch with this in it, however often it is sent. */
export function notThrough(op: Op, cause: Error): BotmeshError {
  if (!isLong(op) || hasNoRoom(cause)) return unavailable(callOf(op), cause);
  const why = told(cause) ?? 'it was sent again and again without an answer.';
  const message = `${callOf(op)}: a text of ${textOf(op)} characters does not get through to the backend: ${why} Shorten it, keep elsewhere what is long, or widen the way. A lower maxBodyBytes refuses it at once.`;
  return new TooLongError(message, { cause });
}

export function hasNoRoom(error: Error): boolean {
  return error instanceof CoordinationUnavailableError && error.hasNoRoom;
}

export function notStarted(cause: Error): CoordinationUnavailableError {
  const why = told(cause) ?? 'the coordination backend cannot be reached. Check its address and that it runs.';
  return new CoordinationUnavailableError('unavailable', `start(): ${why} Then call start() again.`, { cause });
}

/** What a store says in words of botmesh. A library's own may hold what nobody should see. */
function told(cause: Error): string | undefined {
  return cause instanceof BotmeshError ? cause.message : undefined;
}

export function mismatch(found: MeshConfig, given: MeshConfig): ConfigError {
  const message = `start(): the mesh runs with ${JSON.stringify(found)}, this replica with ${JSON.stringify(given)}. Make them the same, or use another namespace.`;
  return new ConfigError(message, 'config-mismatch');
}
