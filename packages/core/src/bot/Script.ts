import { BadInputError, ConfigError } from '../errors.js';
import { type AnyContext, type Context, sessionOf } from './Context.js';
import type { AnyFlow } from './flow.js';
import { type Match, matcher } from './match.js';
import { chain, type Link, type Middleware } from './middleware.js';
import { type Route, routes } from './routes.js';

/** What a bot does with a message, as it was registered. */
export class Script {
  /** Middleware, and between two of them the routes registered there. */
  readonly #parts: (Middleware | Route[])[] = [];
  readonly #flows = new Map<string, AnyFlow>();
  /** What handles the jobs of a name, alone: routes, flows and middleware are for what people write. */
  readonly #jobs = new Map<string, (ctx: Context) => unknown>();
  #run: ((ctx: Context) => unknown) | undefined;

  when(match: Match<AnyContext>, handle: (ctx: Context) => unknown): void {
    if (typeof handle !== 'function') throw new ConfigError('bot.when(): no handler. Pass a function second.');
    this.#route({ matches: matcher(match, 'bot.when()'), handle, flow: undefined });
  }

  flow(flow: AnyFlow): void {
    if (flow.isEmpty)
      throw new ConfigError(`bot.use(): flow '${flow.name}' has no steps. Add .ask(), .say() or .do().`);
    if (this.#flows.has(flow.name)) throw new ConfigError(`bot.use(): there is a flow '${flow.name}' already.`);
    this.#flows.set(flow.name, flow);
    this.#route({ matches: flow.starts, handle: (ctx) => flow.start(ctx), flow });
  }

  job(name: string, handle: (ctx: Context) => unknown): void {
    if (typeof name !== 'string' || name === '')
      throw new ConfigError('bot.job(): no name. Pass the schedule’s first.');
    if (typeof handle !== 'function') throw new ConfigError(`bot.job('${name}'): no handler. Pass a function second.`);
    if (this.#jobs.has(name)) throw new ConfigError(`bot.job('${name}'): there is a handler for it already.`);
    this.#jobs.set(name, handle);
  }

  middleware(middleware: Middleware): void {
    this.#parts.push(middleware);
    this.#run = undefined;
  }

  run(ctx: Context): unknown {
    const { job } = ctx.message;
    if (job !== undefined) return this.#runJob(job.name, ctx);
    const session = sessionOf(ctx);
    // A flow that was renamed or lost its question since: the chat is free again.
    if (session.flow !== undefined && !this.#flows.get(session.flow.name)?.isAt(session)) session.flow = undefined;
    this.#run ??= compile(this.#parts);
    return this.#run(ctx);
  }

  #runJob(name: string, ctx: Context): unknown {
    const handle = this.#jobs.get(name);
    if (handle !== undefined) return handle(ctx);
    throw new BadInputError(
      `job '${name}': this replica has no handler for it. Register one with bot.job('${name}', …).`,
    );
  }

  #route(route: Route): void {
    const last = this.#parts.at(-1);
    if (Array.isArray(last)) last.push(route);
    else this.#parts.push([route]);
    this.#run = undefined;
  }
}

function compile(parts: readonly (Middleware | Route[])[]): (ctx: Context) => unknown {
  const [first] = parts;
  // Without middleware there is no chain to keep account of.
  if (parts.length === 1 && Array.isArray(first)) {
    const link = routes(first);
    return (ctx) => link(ctx, nothing);
  }
  return chain(parts.map(toLink));
}

const nothing = (): Promise<void> => Promise.resolve();

function toLink(part: Middleware | Route[]): Link<Context> {
  return typeof part === 'function' ? part : routes(part);
}
