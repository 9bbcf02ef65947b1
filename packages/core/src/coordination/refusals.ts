/** What callers are told when the engine cannot do as they ask. */
import { BotmeshError, ConfigError, CoordinationUnavailableError, LifecycleError } from '../errors.js';
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
