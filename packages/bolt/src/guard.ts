import { inHand } from '@botmesh/core/spi';
import type { AppInside, BoltApp } from './bolt.js';

type Call = (...args: unknown[]) => unknown;

const guarded = new WeakSet<object>();

/**
 * Makes calls of the Web API ask, within a turn, whether it is still held: an app that was presumed dead sends nothing. Calls
 * outside of turns are as they were.
 */
export function guardClients(app: BoltApp, { middleware }: AppInside): void {
  guardClient(app.client);
  const guard = async ({ client, next }: { client: object; next: () => Promise<void> }): Promise<void> => {
    guardClient(client);
    await next();
  };
  // The first of all, so that none before it sends.
  if (Array.isArray(middleware)) middleware.unshift(guard);
}

/** The methods of a client are bound to it one by one, in groups within groups. */
function guardClient(client: object): void {
  if (guarded.has(client)) return;
  guarded.add(client);
  const { apiCall } = client as { apiCall: Call };
  define(client, 'apiCall', asking(client, apiCall));
  guardGroup(client, 0);
}

function guardGroup(group: object, depth: number): void {
  for (const [name, value] of Object.entries(group)) {
    if (isBoundCall(value)) define(group, name, asking(group, value));
    else if (depth < 4 && isPlain(value)) guardGroup(value, depth + 1);
  }
}

function asking(owner: object, call: Call): Call {
  return async function guardedCall(...args) {
    inHand()?.assertHeld();
    return call.apply(owner, args);
  };
}

function define(owner: object, name: string, value: Call): void {
  Object.defineProperty(owner, name, { value, writable: true, configurable: true, enumerable: name !== 'apiCall' });
}

function isBoundCall(value: unknown): value is Call {
  return typeof value === 'function' && /^bound (apiCall|filesUploadV2)$/.test(value.name);
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
