import { type Context, sessionOf } from './Context.js';
import type { AnyFlow } from './flow.js';
import type { Matcher } from './match.js';
import type { Link, Next } from './middleware.js';

/** A message that matches is handled by this, and by nothing after it. */
export interface Route {
  readonly matches: Matcher;
  readonly handle: (ctx: Context) => unknown;
  readonly flow: AnyFlow | undefined;
}

/** One link of what was registered without middleware between: the first that matches wins. */
export function routes(list: readonly Route[]): Link<Context> {
  return (ctx, next) => {
    const active = sessionOf(ctx).flow?.name;
    if (active === undefined) return pick(list, 0, ctx, next);
    const flow = list.find((route) => route.flow?.name === active)?.flow;
    return flow === undefined ? next() : flow.resume(ctx);
  };
}

/** Waits only for matches that take their time. */
function pick(list: readonly Route[], from: number, ctx: Context, next: Next): unknown {
  for (let at = from; at < list.length; at++) {
    const route = list[at]!;
    const hit = route.matches(ctx);
    if (hit === true) return route.handle(ctx);
    if (hit !== false) return waitFor(hit, list, at, ctx, next);
  }
  return next();
}

async function waitFor(
  hit: Promise<boolean>,
  list: readonly Route[],
  at: number,
  ctx: Context,
  next: Next,
): Promise<void> {
  await ((await hit) ? list[at]!.handle(ctx) : pick(list, at + 1, ctx, next));
}
