import { ConfigError } from '../errors.js';
import { type AnyContext, type Context, fold, foldedTextOf, type Matched } from './Context.js';

/** Messages of a kind, as their provider names it. */
export interface OfKind<Kind extends string = string> {
  readonly kind: Kind;
}

/**
 * Which messages are meant: a string is the whole text, without regard to case or space around it; a RegExp leaves what
 * it found in `ctx.match`; `{ kind }` are those that their provider calls so; a function decides by itself.
 */
export type Match<C extends AnyContext = Context> = string | RegExp | OfKind | ((ctx: C) => boolean | Promise<boolean>);

export type Matcher = (ctx: AnyContext) => boolean | Promise<boolean>;

/** `where` names the call, for the error when `match` is none. */
export function matcher(match: Match<AnyContext>, where: string): Matcher {
  if (typeof match === 'function') return match;
  if (typeof match === 'string') return isText(match);
  if (match instanceof RegExp) return matches(match);
  const kind = (match as Partial<OfKind> | null | undefined)?.kind;
  if (typeof kind === 'string' && kind !== '') return (ctx) => ctx.message.kind === kind;
  throw new ConfigError(`${where}: expected a string, a RegExp, { kind } or a function, found ${typeof match}.`);
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
    // Not there where the pattern names none.
    ctx.match = Object.assign(found, { groups: found.groups ?? {} }) satisfies Matched;
    return true;
  };
}
