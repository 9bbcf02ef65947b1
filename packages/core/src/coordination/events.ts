import { BadInputError } from '../errors.js';
import type { CoordinatorEvents } from './types.js';

const NAMES: { [Event in keyof CoordinatorEvents]: true } = {
  unavailable: true,
  available: true,
  lost: true,
  superseded: true,
  forgotten: true,
  replaced: true,
  elected: true,
  late: true,
  quarantine: true,
  wakeDegraded: true,
  ticketLeaked: true,
  held: true,
  parked: true,
};

/** An event that never comes would be waited for in vain. */
export function checkEvent(event: string): void {
  checkEventName(event, NAMES);
}

export function checkEventName(event: string, names: Readonly<Record<string, true>>): void {
  if (Object.hasOwn(names, event)) return;
  throw new BadInputError(`on(): there is no event '${String(event)}'. There are ${Object.keys(names).join(', ')}.`);
}

/** Listeners by event name. One that throws, or whose promise rejects, disturbs nobody. */
export class Events<Map extends object> {
  readonly #listeners = new globalThis.Map<keyof Map, Set<(payload: never) => unknown>>();

  on<E extends keyof Map>(event: E, listener: (payload: Map[E]) => unknown): () => void {
    checkListener(String(event), listener);
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    // A wrapper of its own, so that one function registered twice is heard twice and removed once.
    const own = (payload: Map[E]): unknown => listener(payload);
    listeners.add(own);
    return () => listeners.delete(own);
  }

  emit<E extends keyof Map>(event: E, payload: Map[E]): void {
    const listeners = this.#listeners.get(event);
    if (listeners === undefined) return;
    for (const listener of [...listeners]) callQuietly(listener as (payload: Map[E]) => unknown, payload);
  }

  count(event: keyof Map): number {
    return this.#listeners.get(event)?.size ?? 0;
  }
}

export function checkListener(event: string, listener: unknown): void {
  if (typeof listener === 'function') return;
  throw new BadInputError(`A listener of '${event}': expected a function, found ${typeof listener}.`);
}

export function callQuietly<T>(listener: (payload: T) => unknown, payload: T): void {
  try {
    const result = listener(payload);
    if (result instanceof Promise) result.catch(() => {});
  } catch {
    // The listener's own trouble: the protocol goes on.
  }
}
