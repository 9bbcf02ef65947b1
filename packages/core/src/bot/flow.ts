import { ConfigError, checkOptionNames } from '../errors.js';
import type { Session } from '../pipeline/Session.js';
import type { Reply } from '../providers/provider.js';
import { type Context, fold, foldedTextOf, sessionOf } from './Context.js';
import { type Match, type Matcher, matcher } from './match.js';

/** What a flow knows so far: `state` has the answers, by their keys. Plain JSON data. */
export interface Conversation<A extends object> {
  readonly state: A;
}

type Said = string | Reply | undefined;

/** A text, or a function that makes one; undefined or an empty text says nothing. */
export type Text<A extends object> = string | Reply | ((ctx: Context, c: Conversation<A>) => Said | Promise<Said>);

export interface AskOptions<A extends object, T> {
  /** Makes the answer of what was written; undefined refuses it, and the question is asked again. Plain JSON data. */
  parse(text: string, ctx: Context, c: Conversation<A>): T | undefined | Promise<T | undefined>;
  /** Said when an answer was refused. Default: the question again. */
  again?: Text<A>;
}

export interface FlowOptions {
  /** Which message starts the flow. Default: its name. */
  when?: Match;
  /** The word that leaves the flow, or false for none. Default `cancel`. */
  cancel?: string | false;
  /** Said when it was left. */
  cancelled?: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a step knows the answers of its own place only
type AnyText = Text<any>;
type Step =
  | { readonly kind: 'say'; readonly text: AnyText }
  // biome-ignore lint/suspicious/noExplicitAny: as above
  | { readonly kind: 'do'; readonly act: (ctx: Context, c: Conversation<any>) => unknown }
  | {
      readonly kind: 'ask';
      readonly text: AnyText;
      readonly key: string;
      // biome-ignore lint/suspicious/noExplicitAny: as above
      readonly options: AskOptions<any, unknown> | undefined;
    };
type Ask = Step & { kind: 'ask' };

/** A flow as the Bot runs it, whatever its answers. */
export interface AnyFlow {
  readonly name: string;
  readonly starts: Matcher;
  /** Whether it has no steps. */
  readonly isEmpty: boolean;
  /** Whether the chat stands at a question of this flow. */
  isAt(session: Session): boolean;
  start(ctx: Context): Promise<void>;
  /** Goes on with the message as the answer to the question the chat stands at. */
  resume(ctx: Context): Promise<void>;
}

/**
 * A conversation in steps: `flow('signup').ask('Your name?', 'name').say((_ctx, c) => `Hello ${c.state.name}`)`. A
 * message that is the flow's name starts it; the place is kept in the chat's state, so the next message goes on with it
 * on whichever replica it arrives. Every call gives a new flow; the one before is as it was.
 *
 * A step that failed, or whose replica died, is run again from the message on: a reply may then come twice.
 */
export function flow(name: string, options: FlowOptions = {}): Flow {
  if (typeof name !== 'string' || fold(name) === '') throw new ConfigError('flow(): expected a name.');
  checkOptionNames(`flow('${name}')`, options, { when: true, cancel: true, cancelled: true });
  const { cancel = 'cancel' } = options;
  if (cancel !== false && typeof cancel !== 'string') {
    throw new ConfigError(`flow('${name}'): cancel is a ${typeof cancel}. Give a word, or false for none.`);
  }
  return new Flow({
    name,
    starts: matcher(options.when ?? name, `flow('${name}'): when`),
    cancel: cancel === false ? undefined : fold(cancel),
    cancelled: options.cancelled ?? 'Cancelled.',
  });
}

interface Head {
  readonly name: string;
  readonly starts: Matcher;
  readonly cancel: string | undefined;
  readonly cancelled: string;
}

// biome-ignore lint/complexity/noBannedTypes: no answers yet
export class Flow<A extends object = {}> implements AnyFlow {
  readonly #head: Head;
  readonly #steps: readonly Step[];

  /** Use `flow`. */
  constructor(head: Head, steps: readonly Step[] = []) {
    this.#head = head;
    this.#steps = steps;
  }

  get name(): string {
    return this.#head.name;
  }

  get starts(): Matcher {
    return this.#head.starts;
  }

  get isEmpty(): boolean {
    return this.#steps.length === 0;
  }

  /** Asks, waits for the next message of the chat, and keeps it as `c.state[key]`. */
  ask<K extends string>(question: Text<A>, key: K): Flow<A & Record<K, string>>;
  ask<K extends string, T>(question: Text<A>, key: K, options: AskOptions<A, T>): Flow<A & Record<K, T>>;
  ask<K extends string>(question: Text<A>, key: K, options?: AskOptions<A, unknown>): Flow<A & Record<K, unknown>> {
    this.#check('ask', question);
    if (typeof key !== 'string' || key === '') {
      const found = key === '' ? 'an empty one' : typeof key;
      throw new ConfigError(`flow('${this.name}').ask(): expected a key for the answer second, found ${found}.`);
    }
    if (options !== undefined && typeof options?.parse !== 'function') {
      throw new ConfigError(`flow('${this.name}').ask(): options without parse. Pass { parse }, or no options.`);
    }
    if (options?.again !== undefined) this.#check('ask', options.again);
    if (this.#steps.some((step) => step.kind === 'ask' && step.key === key)) {
      throw new ConfigError(`flow('${this.name}'): '${key}' is asked twice. Give each question its own key.`);
    }
    return this.#with({ kind: 'ask', text: question, key, options });
  }

  say(text: Text<A>): Flow<A> {
    this.#check('say', text);
    return this.#with({ kind: 'say', text });
  }

  /** Does something between two steps: a write, a look-up, a change of `ctx.state`. */
  do(act: (ctx: Context, c: Conversation<A>) => unknown): Flow<A> {
    if (typeof act !== 'function') {
      throw new ConfigError(`flow('${this.name}').do(): expected a function, found ${typeof act}.`);
    }
    return this.#with({ kind: 'do', act });
  }

  isAt(session: Session): boolean {
    return session.flow?.name === this.name && this.#indexOf(session.flow.awaits) !== -1;
  }

  async start(ctx: Context): Promise<void> {
    await this.#run(ctx, 0, {});
  }

  async resume(ctx: Context): Promise<void> {
    const session = sessionOf(ctx);
    const position = session.flow;
    if (position === undefined) return;
    const { text } = ctx.message;
    if (this.#head.cancel !== undefined && foldedTextOf(ctx) === this.#head.cancel) {
      session.flow = undefined;
      await ctx.reply(this.#head.cancelled);
      return;
    }
    const at = this.#indexOf(position.awaits);
    const ask = this.#steps[at] as Ask;
    const state = { ...position.state };
    const answer = ask.options === undefined ? text : await ask.options.parse(text, ctx, { state });
    if (answer === undefined) {
      await speak(ctx, ask.options?.again ?? ask.text, { state });
      return;
    }
    state[ask.key] = answer;
    await this.#run(ctx, at + 1, state);
  }

  async #run(ctx: Context, from: number, state: Record<string, unknown>): Promise<void> {
    const session = sessionOf(ctx);
    const conversation = { state };
    for (const step of this.#steps.slice(from)) {
      if (step.kind === 'do') {
        await step.act(ctx, conversation);
        continue;
      }
      await speak(ctx, step.text, conversation);
      if (step.kind === 'ask') {
        session.flow = { name: this.name, awaits: step.key, state };
        return;
      }
    }
    session.flow = undefined;
  }

  #check(step: string, text: unknown): void {
    if (typeof text === 'string' || typeof text === 'function') return;
    if (typeof (text as Partial<Reply> | null | undefined)?.text === 'string') return;
    const found = text === null ? 'null' : typeof text;
    throw new ConfigError(
      `flow('${this.name}').${step}(): expected a text, { text } or a function that makes one, found ${found}.`,
    );
  }

  #indexOf(key: string): number {
    return this.#steps.findIndex((step) => step.kind === 'ask' && step.key === key);
  }

  #with<B extends object>(step: Step): Flow<B> {
    return new Flow<B>(this.#head, [...this.#steps, step]);
  }
}

async function speak(ctx: Context, text: AnyText, conversation: Conversation<object>): Promise<void> {
  const said = typeof text === 'function' ? await text(ctx, conversation) : text;
  if (said !== undefined && said !== '') await ctx.reply(said);
}
