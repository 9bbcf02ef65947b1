import { ConfigError } from '../errors.js';
import { type Context, fold, foldedTextOf } from './Context.js';

/**
 * Which messages are meant: a string is the whole text, without regard to case or space around it; a RegExp leaves what
 * it found in `ctx.match`; a function decides by itself.
 */
// biome-ignore lint/suspicious/noExplicitAny: a match may look at any state
export type Match<C extends Context<any> = Context> = string | RegExp | ((ctx: C) => boolean | Promise<boolean>);

// biome-ignore lint/suspicious/noExplicitAny: see Match
export type Matcher = (ctx: Context<any>) => boolean | Promise<boolean>;

/** `where` names the call, for the error when `match` is none. */
// biome-ignore lint/suspicious/noExplicitAny: see Match
export function matcher(match: Match<Context<any>>, where: string): Matcher {
  if (typeof match === 'function') return match;
  if (typeof match === 'string') return isText(match);
  if (match instanceof RegExp) return matches(match);
  throw new ConfigError(`${where}: expected a string, a RegExp or a function, found ${typeof match}.`);
}

function isText(wanted: string): Matcher {
  const folded = fold(wanted);
  return (ctx) => foldedTextOf(ctx) === folded;
}

function matches(pattern: RegExp): Matcher {
  // A copy: a global or sticky pattern remembers where it stopped.
  const own = new RegExp(pattern);
  return (ctx) => {
    own.lastIndex = 0;
    const found = own.exec(ctx.message.text);
    if (found === null) return false;
    ctx.match = found;
    return true;
  };
}
