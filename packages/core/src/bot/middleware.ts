import { MiddlewareError } from '../errors.js';
import { Watched } from '../pipeline/Watched.js';
import type { Context } from './Context.js';

/** Runs the rest of the chain. At most once a message. */
export type Next = () => Promise<void>;

export type Middleware<C = Context> = (ctx: C, next: Next) => unknown;

/** One link: does its part, and runs the rest by `next` if it is not the last. */
export type Link<C> = (ctx: C, next: Next) => unknown;

/**
 * Makes one function of a chain. It resolves when every link that was reached has ended, awaited or not, and rejects with
 * the first error that no link caught.
 */
export function chain<C>(links: readonly Link<C>[]): (ctx: C) => Promise<void> {
  return async (ctx) => {
    const begun: Watched<void>[] = [];
    await step(links, 0, ctx, begun);
    for (const rest of begun) if (!rest.isSeen) await rest;
  };
}

async function step<C>(links: readonly Link<C>[], at: number, ctx: C, begun: Watched<void>[]): Promise<void> {
  const link = links[at];
  if (link === undefined) return;
  let isCalled = false;
  await link(ctx, () => {
    // Thrown, not rejected: a forgotten await would leave a rejection that nobody handles.
    if (isCalled) throw new MiddlewareError('next() was called twice for one message. Call it once, and await it.');
    isCalled = true;
    const rest = step(links, at + 1, ctx, begun);
    rest.catch(() => {});
    const watched = new Watched(rest);
    begun.push(watched);
    return watched;
  });
}
