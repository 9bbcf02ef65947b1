import { type Context, sessionOf } from './Context.js';
import type { AnyFlow } from './flow.js';
import type { Matcher } from './match.js';
import type { Link } from './middleware.js';

/** A message that matches is handled by this, and by nothing after it. */
export interface Route {
  readonly matches: Matcher;
  readonly handle: (ctx: Context) => unknown;
  readonly flow: AnyFlow | undefined;
}

/** One link of what was registered without middleware between: the first that matches wins. */
export function routes(list: readonly Route[]): Link<Context> {
  return async (ctx, next) => {
    const active = sessionOf(ctx).flow?.name;
    if (active !== undefined) {
      const flow = list.find((route) => route.flow?.name === active)?.flow;
      await (flow === undefined ? next() : flow.resume(ctx));
      return;
    }
    for (const route of list) {
      const hit = route.matches(ctx);
      if (hit === true || (hit !== false && (await hit))) {
        await route.handle(ctx);
        return;
      }
    }
    await next();
  };
}
