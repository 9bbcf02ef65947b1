import { checkEventName, Events } from '../coordination/events.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Coordinator, Inbox, Mailroom } from '../coordination/types.js';
import {
  BadInputError,
  ConfigError,
  CoordinationUnavailableError,
  checkOptionNames,
  LeaseLostError,
  LifecycleError,
} from '../errors.js';
import type { Attempt } from '../pipeline/Attempt.js';
import { Sharing } from '../pipeline/accounts/Sharing.js';
import { checkDrainMs, drain } from '../pipeline/drain.js';
import type { Message } from '../pipeline/envelope.js';
import { runExclusive } from '../pipeline/exclusive.js';
import { Forgotten } from '../pipeline/Forgotten.js';
import type { EndDetail, How, Named } from '../pipeline/fate.js';
import { adopted, durableIngress, isDurable, plainIngress, type Take } from '../pipeline/ingress.js';
import { Load } from '../pipeline/Load.js';
import { isMailroom } from '../pipeline/mail.js';
import { cancelNote, steerNote } from '../pipeline/notes.js';
import { OneByOne } from '../pipeline/OneByOne.js';
import { type Rules, settleOverlap } from '../pipeline/overlap.js';
import { Pacer } from '../pipeline/Pacer.js';
import { pause } from '../pipeline/pause.js';
import { RuledStore } from '../pipeline/RuledStore.js';
import { RESERVED } from '../pipeline/reserved.js';
import { type StateOutages, stateOutages } from '../pipeline/StateOutage.js';
import type { Hearer, TurnSetup, Work } from '../pipeline/setup.js';
import { MessageTurn } from '../pipeline/turn.js';
import type { Intake, Provider } from '../providers/provider.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import { kindOf } from '../state/plain-data.js';
import type { StateStore } from '../state/state-store.js';
import { type Clock, systemClock } from '../time/clock.js';
import { announce } from './announce.js';
import {
  BROADCAST,
  type BroadcastMessage,
  type BroadcastOptions,
  type BroadcastProgress,
  Broadcasts,
  type Chats,
} from './broadcast.js';
import { type ChatState, Context, type JobContext, type Matched } from './Context.js';
import { BOT_EVENTS, type BotEvents } from './events.js';
import { type AnyFlow, Flow } from './flow.js';
import { type Details, type Health, probe, refusal } from './health.js';
import { Handling } from './holding.js';
import { LocalLine } from './LocalLine.js';
import type { Match, OfKind } from './match.js';
import type { Middleware } from './middleware.js';
import { type BotOptions, backoff, checkOptions, type ErrorHook } from './options.js';
import { mailroomOf, type Parked, parkedOf } from './parked.js';
import { rejectedContext } from './rejected.js';
import { Script } from './Script.js';
import type { Enqueue, Job } from './schedule/Job.js';
import { type ScheduleOptions, Schedules, type When } from './schedule/Schedules.js';
import { DRAIN_MS, handleSignals, type SignalOptions, thisProcess } from './signals.js';
import { checkFresh, type Scopes, scopesOf, stateOf } from './state-of.js';
import { warnings } from './warnings.js';

const GRACE_MS = 5_000;
const MAX_ATTEMPTS = 5;
const BALANCE_MS = 2_000;
/** So many times `maxTurnMs` may handlers run that report progress. */
const PROGRESS_TIMES = 10;
/** What a provider is given to stop in, also where nothing is drained. */
const SHORTEST_LIMIT_MS = 1_000;
/** How soon a job is put into its chat again, when the backend does not answer. */
const RETRY_MS = 1_000;
/** How long a replica that met a newer version takes nothing over: what it cannot read finds its way to those who can. */
const GIVE_WAY_MS = 10_000;
const LONGEST_LIMIT_MS = 2 ** 31 - 1;

const NOT_STARTED = 'The bot is not started. Call start() first.';

/** Which Bot runs on a coordinator. */
const users = new WeakMap<Coordinator, object>();

export interface StopOptions {
  /** How long running turns may take to end, in milliseconds. Default 10,000. */
  drainMs?: number;
}

/**
 * A chat bot that may run as many replicas: the messages of one chat are handled one at a time, in the order they came
 * in, whichever replica each of them reached.
 *
 * A message is handled at least once. It may be handled again, with a greater `ctx.attempt`, when a handler threw or a
 * replica died. Replies that a failed attempt sent are not sent again; those of a replica that died are, unless
 * `onUnknownSend` puts them on record.
 */
export class Bot<S extends object = ChatState, U extends object = ChatState, G extends object = ChatState> {
  readonly #options: BotOptions;
  readonly #provider: Provider;
  readonly #coordinator: Coordinator;
  readonly #clock: Clock;
  /** The coordinator, if it keeps messages. */
  readonly #inbox: Inbox | undefined;
  /** The coordinator, if it can do more. */
  readonly #mail: Mailroom | undefined;
  readonly #running = new Map<string, Hearer>();
  readonly #events = new Events<BotEvents>();
  readonly #load = new Load();
  readonly #stopping = new AbortController();
  /** Aborts when nothing is to be waited for any more. */
  readonly #hurry = new AbortController();
  readonly #hooks: ErrorHook[] = [];
  readonly #log: (line: string) => void;
  readonly #script = new Script();
  readonly #schedules = new Schedules();
  readonly #broadcasts: Broadcasts;
  readonly #scopes: Scopes;
  /** Where all state is kept, as it is. */
  readonly #store: StateStore;
  readonly #outages: StateOutages;
  readonly #announced: ReturnType<typeof announce>;
  readonly #handling: Handling;
  /** Undefined where the provider has no accounts to share. */
  readonly #sharing: Sharing | undefined;
  readonly #setup: TurnSetup;
  /** For the bot's own messages. */
  readonly #take: Take;
  /** For what comes from the platform. */
  readonly #takeIncoming: Take;
  readonly #local: LocalLine | undefined;
  #health: Health = 'new';
  /** What was taken over before the provider could send. Undefined once it can. */
  #early: Work[] | undefined = [];
  #isConnected = false;
  #givesWay = false;
  #endAdopting: (() => void) | undefined;
  #started: Promise<void> | undefined;
  #stopped: Promise<void> | undefined;
  #exclusive: Promise<void> | undefined;
  #drained: Promise<void> | undefined;

  constructor(options: BotOptions<S, U, G>) {
    checkOptions(options);
    this.#options = options;
    this.#provider = options.provider;
    this.#clock = options.clock ?? systemClock;
    this.#coordinator =
      options.coordinator ?? new MemoryCoordinator({ maxAttempts: options.maxAttempts ?? MAX_ATTEMPTS });
    this.#log = quietly(options.log ?? ((line) => console.warn(line)));
    if (options.onError !== undefined) this.#hooks.push(options.onError);
    const begin = (work: Work): void => this.#begin(work);
    const rules = settleOverlap(options.overlap);
    const inbox = inboxOf(options, this.#coordinator, rules);
    const mail = inbox !== undefined && isMailroom(this.#coordinator) ? this.#coordinator : undefined;
    const overlapping =
      mail === undefined || rules.areSerial
        ? undefined
        : {
            mail,
            rules,
            rejected: (work: Work, message: Message) => this.#rejected(work, message),
            left: (work: Work) => this.#setup.forgotten?.left(work),
          };
    this.#take =
      inbox === undefined
        ? plainIngress(this.#coordinator, begin, this.#load)
        : durableIngress(inbox, begin, this.#load, overlapping);
    this.#inbox = inbox;
    this.#mail = mail;
    this.#scopes = scopesOf(options);
    this.#store = stateOf(options);
    this.#outages = stateOutages(this.#clock, (line) => this.#log(`botmesh: ${line}`));
    this.#handling = this.#makeHandling();
    this.#sharing = this.#makeSharing();
    this.#setup = this.#makeSetup();
    this.#local = options.onUnavailable === 'local' ? this.#makeLocal() : undefined;
    this.#takeIncoming =
      this.#local?.behind(this.#take, ({ chat, id }) => this.#events.emit('local', { chat, id })) ?? this.#take;
    this.#broadcasts = this.#makeBroadcasts();
    this.#script.job(BROADCAST, this.#broadcasts.handle);
    this.#coordinator.on('parked', ({ key, id, error }) => {
      const reason = error === undefined ? {} : { reason: error };
      this.#events.emit('ended', { chat: key, id, seq: undefined, how: 'parked', ...reason });
    });
    const change = (from: readonly Health[], to: Health): void => {
      if (from.includes(this.#health)) this.#health = to;
    };
    this.#announced = announce(this.#coordinator, this.#log, change, this.#clock);
  }

  /**
   * Handles the messages that `match`. The first that matches, in the order of registration, handles a message alone. A
   * chat that is in a flow goes on with it instead.
   *
   * The context is typed by what matches: `ctx.match` is there for a pattern only, and its named groups can be listed,
   * `bot.when<'city'>(/in (?<city>.+)/, …)`; `{ kind }` and a type predicate narrow the context by themselves.
   */
  when<const Names extends string = string>(
    match: RegExp,
    handler: (ctx: Context<S, U, G> & { match: Matched<Readonly<Record<Names, string | undefined>>> }) => unknown,
  ): this;
  when<const Kind extends string>(
    match: OfKind<Kind>,
    handler: (ctx: Context<S, U, G> & { readonly message: OfKind<Kind> }) => unknown,
  ): this;
  when<C extends Context<S, U, G>>(match: (ctx: Context<S, U, G>) => ctx is C, handler: (ctx: C) => unknown): this;
  when(match: string, handler: (ctx: Context<S, U, G> & { match: undefined }) => unknown): this;
  when(match: Match<Context<S, U, G>>, handler: (ctx: Context<S, U, G>) => unknown): this;
  when(match: Match<Context<S, U, G>>, handler: (ctx: never) => unknown): this {
    this.#script.when(match, handler as (ctx: Context) => unknown);
    return this;
  }

  /**
   * Adds a flow, or middleware: a function that runs for every message that nothing before it handled, and the rest of
   * the bot by `next`, at most once.
   */
  use(flow: AnyFlow): this;
  use(middleware: Middleware<Context<S, U, G>>): this;
  use(part: AnyFlow | Middleware<Context<S, U, G>>): this {
    if (part instanceof Flow) this.#script.flow(part);
    else if (typeof part === 'function') this.#script.middleware(part as Middleware);
    else throw new ConfigError(`bot.use(): expected a function or a flow, found ${typeof part}.`);
    return this;
  }

  /**
   * Runs `run` at each due time, once in the whole mesh: whichever replica leads the schedule does. `when` is a cron pattern
   * (read by the package croner, which you install) or `{ everyMs }`. With the option `chat` it runs in that chat's turn, in
   * its queue, and gets a `ctx`. Call it before `start()`, in every replica alike.
   *
   * A run that its replica did not end, because it died, stopped or lost the leadership, is made once more by the next
   * leader, and not a third time. One that throws is over: `onError` hears of it, and the next due time goes on. A run that
   * takes longer than the time between two never overlaps with the next. Runs come late by up to the time in which a dead
   * replica is noticed, and hosts' clocks must agree to within what lateness may matter.
   */
  schedule(
    when: When,
    name: string,
    run: (job: Job) => unknown,
    options?: ScheduleOptions & { chat?: undefined },
  ): this;
  schedule(
    when: When,
    name: string,
    handler: (ctx: JobContext<S, U, G>) => unknown,
    options: ScheduleOptions & { chat: string },
  ): this;
  schedule(when: When, name: string, run: (arg: never) => unknown, options: ScheduleOptions = {}): this {
    const act = run as (arg: unknown) => unknown;
    const chat: unknown = options?.chat;
    this.#schedules.add(when, name, options, chat === undefined ? act : (job) => this.#inChat(job, chat as string));
    if (chat !== undefined) this.#script.job(name, act);
    return this;
  }

  /** Handles what the schedule `name` puts into chats by `job.inChat`, each in its chat's turn. */
  job(name: string, handler: (ctx: JobContext<S, U, G>) => unknown): this {
    this.#script.job(name, handler as (ctx: Context) => unknown);
    return this;
  }

  /**
   * Sends `message` to many chats, each in its own turn, in the order of the list. Resolves when all of them have been tried.
   * How far it came is kept in the state store under `id`: a call with the same id, on whichever replica, goes on there with
   * the same list, and of calls at the same time one runs. Each chat takes it in once, as long as ids are remembered
   * (`dedupeMs`), and as any message it is then handled at least once: a replica that dies right after a send leaves it to be
   * sent again, with the same idempotency key.
   *
   * @throws BadInputError for an id, a list or a message that is none
   * @throws ConfigError for an option that does not exist
   * @throws LifecycleError before `start()`, and when the bot stops meanwhile; the signal's reason when it aborts; the position is kept
   */
  broadcast(chats: Chats, message: BroadcastMessage, options: BroadcastOptions): Promise<BroadcastProgress> {
    return this.#broadcasts.run(chats, message, options);
  }

  /**
   * Adds a hook that hears of every failed attempt, and may still reply; the message is tried again afterwards. Also of
   * what the provider throws. With no hook, errors are logged.
   */
  onError(hook: ErrorHook): this {
    if (typeof hook !== 'function') throw new ConfigError(`bot.onError(): expected a function, found ${typeof hook}.`);
    this.#hooks.push(hook);
    return this;
  }

  /** Subscribes to an event; call what it returns to end that. A listener that throws disturbs nobody. */
  on<E extends keyof BotEvents>(event: E, listener: (payload: BotEvents[E]) => void): () => void {
    checkEventName(event, BOT_EVENTS);
    return this.#events.on(event, listener);
  }

  /**
   * Ends the running turn of `chat`, whichever replica has it: its signal aborts with a CancelledError, and its message ends
   * as cancelled, which is not tried again. Messages that wait are not touched.
   *
   * Resolves with whether a turn was running. One that was about to end may still end as handled; the event `ended` tells.
   *
   * @throws BadInputError for what is no name of a chat
   * @throws LifecycleError before `start()` and after `stop()`
   * @throws CoordinationUnavailableError when the backend does not answer
   */
  async cancel(chat: string, reason = 'cancelled'): Promise<boolean> {
    if (typeof reason !== 'string') {
      throw new BadInputError(`bot.cancel(): expected a text as the reason, found ${kindOf(reason)}.`);
    }
    return this.#reach('bot.cancel()', chat, cancelNote(reason));
  }

  /**
   * Gives `payload`, plain JSON data, to the running turn of `chat`, whichever replica has it: its `ctx.onSteer` hears it.
   * Resolves with whether it is on its way to a turn: false when none runs, and when more than 256 payloads wait to be
   * fetched by the replica that has it. Whether the handler listened is not known; a handler that never listens has the first
   * 256 kept for it, and `onError` hears once that the rest was dropped.
   *
   * @throws BadInputError for what is no name of a chat, and for a payload that is no plain JSON data or too much of it
   * @throws LifecycleError before `start()` and after `stop()`
   * @throws CoordinationUnavailableError when the backend does not answer
   */
  async steer(chat: string, payload: unknown): Promise<boolean> {
    return this.#reach('bot.steer()', chat, steerNote(payload));
  }

  /**
   * All messages that were tried `maxAttempts` times and are kept aside, of all chats, with what the last attempt threw.
   *
   * @throws CoordinationUnavailableError when the backend does not answer
   * @throws ConfigError when the coordinator keeps none
   */
  async parked(): Promise<Parked[]> {
    return (await this.#mailroom('bot.parked()').parked()).map(parkedOf);
  }

  /**
   * Puts a parked message at the end of its chat, to be tried as if it were new. False when it is not parked any more.
   *
   * @throws as `parked` does
   */
  async replay(chat: string, seq: number): Promise<boolean> {
    return this.#mailroom('bot.replay()').replay(chat, seq);
  }

  /**
   * Forgets a parked message; the platform may deliver it again. False when it is not parked any more.
   *
   * @throws as `parked` does
   */
  async drop(chat: string, seq: number): Promise<boolean> {
    return this.#mailroom('bot.drop()').drop(chat, seq);
  }

  #mailroom(call: string): Mailroom {
    return mailroomOf(this.#mail, this.#coordinator, call);
  }

  async #reach(call: string, chat: string, note: string): Promise<boolean> {
    if (typeof chat !== 'string' || chat === '') {
      throw new BadInputError(`${call}: chat is ${chat === '' ? 'empty' : kindOf(chat)}: expected the name of a chat.`);
    }
    if (this.#health === 'new') return refuse('not-started', NOT_STARTED);
    if (this.#health === 'stopped') return refuse('stopped', 'The bot was stopped. Make a new one.');
    const hearer = this.#running.get(chat);
    hearer?.hear(note);
    return hearer !== undefined || (this.#mail?.tell(chat, note) ?? false);
  }

  /** Joins the mesh and begins to take messages in. Idempotent. If it rejects, the Bot is stopped. */
  start(): Promise<void> {
    if (this.#stopped !== undefined) return refuse('stopped', 'The bot was stopped. Make a new one.');
    this.#started ??= this.#start();
    return this.#started;
  }

  /**
   * Stops: takes nothing in any more, lets running turns end, hands over what waits, and leaves. What still runs after
   * `drainMs` is aborted through its signal and handled again elsewhere. Does not wait for handlers that ignore it.
   * Idempotent; never rejects. A second call with `drainMs` 0 cuts the first one short.
   *
   * What waits is passed on before the first turn has ended, and counts as not tried. With no other replica to take it, it
   * stays in the mesh until one comes; a bot that runs alone handles it before it stops.
   *
   * @throws ConfigError at once, for an option that does not exist; BadInputError for a time that is none
   */
  stop(options: StopOptions = {}): Promise<void> {
    checkOptionNames('bot.stop()', options, { drainMs: true });
    const drainMs = checkDrainMs(options.drainMs === undefined ? DRAIN_MS : options.drainMs);
    if (drainMs === 0) this.#hurry.abort();
    this.#stopped ??= this.#stop(drainMs);
    return this.#stopped;
  }

  /**
   * Stops the bot in good order when the process is told to end (SIGTERM, SIGINT), and then ends the process. A second
   * signal aborts what still runs. Returns what takes the listeners away again; they are gone when the bot has stopped.
   */
  handleSignals(options: SignalOptions = {}): () => void {
    return handleSignals(this, options, thisProcess());
  }

  /**
   * Answers an HTTP request of the platform, and the probes `…/livez` and `…/readyz`. Answers 503 when the message is not
   * safely taken in, so that the platform delivers it again. Never rejects.
   */
  readonly webhook = async (request: Request): Promise<Response> => {
    try {
      const answer = probe(request, this.#status(), () => this.#details());
      if (answer !== undefined) return answer;
      if (this.#provider.webhook === undefined) return new Response(null, { status: 404 });
      if (this.#health !== 'ready' && this.#health !== 'unavailable') return refusal(this.#health);
      return await this.#provider.webhook(request, this.#intake);
    } catch (error) {
      await this.#tell(error, undefined, 'a webhook call');
      return new Response(null, { status: 500 });
    }
  };

  #details(): Details {
    const { waits } = this.#announced;
    return { ...(waits === undefined ? {} : { waits }), ...this.#sharing?.details };
  }

  readonly #intake: Intake = (message) => {
    if (this.#health === 'new') return refuse('not-started', NOT_STARTED);
    if (this.#stopped !== undefined || this.#stopping.signal.aborted) {
      return refuse('stopped', 'The bot is stopping and takes nothing in.');
    }
    return this.#takeIncoming(message);
  };

  async #start(): Promise<void> {
    this.#claim();
    for (const line of warnings(this.#options)) this.#log(line);
    this.#health = 'starting';
    try {
      await checkFresh(this.#scopes);
      await this.#prepareSchedules();
      if (this.#handlesAlways) this.#adopt(true);
      await this.#local?.start();
      await this.#coordinator.start();
      if (this.#provider.exclusive) this.#exclusive = this.#sharing?.run() ?? this.#runExclusive();
      else await this.#provider.start(this.#intake);
    } catch (error) {
      this.#stopping.abort();
      this.#health = 'stopped';
      await this.#local?.stop(0, this.#stopping.signal);
      await this.#leave();
      throw error;
    }
    if (this.#health === 'starting') this.#health = 'ready';
    const early = this.#early ?? [];
    this.#early = undefined;
    for (const work of early) this.#begin(work);
    if (this.#handlesAlways) this.#serveSchedules(true);
    void this.#provider.ended?.then(() => this.#end());
  }

  /** Two Bots of one coordinator would be handed each other's messages, and the first stop would end both. */
  #claim(): void {
    if (!users.has(this.#coordinator)) {
      users.set(this.#coordinator, this);
      return;
    }
    this.#stopping.abort();
    this.#health = 'stopped';
    throw new ConfigError(
      'bot.start(): another Bot runs on this coordinator. Give each Bot a coordinator of its own, with the same backend.',
    );
  }

  /** Stops the coordinator, unless another Bot runs on it. */
  async #leave(): Promise<void> {
    if ((users.get(this.#coordinator) ?? this) !== this) return;
    await this.#attempt('coordinator.stop()', () => this.#coordinator.stop());
    users.delete(this.#coordinator);
  }

  #status(): Health {
    const isStandby = this.#health === 'ready' && Boolean(this.#provider.exclusive) && !this.#isConnected;
    if (isStandby) return 'standby';
    return this.#health === 'unavailable' && this.#local !== undefined ? 'local' : this.#health;
  }

  /** No more will come: what is in hand is handled, however long it takes. */
  async #end(): Promise<void> {
    await this.#load.empty();
    await this.stop();
  }

  async #stop(drainMs: number): Promise<void> {
    if (this.#health !== 'stopped') this.#health = 'stopping';
    await this.#within(
      drainMs,
      this.#started?.catch(() => {}),
    );
    if ((this.#health as Health) === 'stopped') return;
    // Not adopted again what is passed on below.
    this.#adopt(false);
    this.#drained = drain(this.#load, this.#clock, drainMs, this.#passesOn, this.#hurry.signal);
    this.#stopping.abort();
    if (this.#passesOn) this.#mail?.passWaiting();
    this.#serveSchedules(false);
    await this.#within(drainMs, this.#exclusive ?? this.#attempt('provider.stop()', () => this.#provider.stop()));
    await Promise.all([this.#drained, this.#local?.stop(drainMs, this.#hurry.signal)]);
    await this.#leave();
    if (this.#exclusive === undefined) {
      await this.#within(
        drainMs,
        this.#attempt('provider.close()', () => this.#provider.close?.()),
      );
    }
    this.#health = 'stopped';
  }

  /** Waits for a provider that may hang, but not for ever. */
  async #within(drainMs: number, promise: Promise<void> | undefined): Promise<void> {
    if (promise === undefined) return;
    const over = new AbortController();
    const limitMs = Math.min(Math.max(drainMs, SHORTEST_LIMIT_MS), LONGEST_LIMIT_MS);
    const limit = pause(this.#clock, limitMs - SHORTEST_LIMIT_MS, over.signal, this.#hurry.signal);
    await Promise.race([promise, limit.then(() => pause(this.#clock, SHORTEST_LIMIT_MS, over.signal))]);
    over.abort();
  }

  /** Whether this replica handles messages also while another one has the only connection. */
  get #handlesAlways(): boolean {
    return !this.#provider.exclusive || this.#provider.exclusive === 'receiving';
  }

  /** Whether what waits here is another replica's to handle when this one stops. */
  get #passesOn(): boolean {
    return this.#inbox !== undefined && this.#options.coordinator !== undefined;
  }

  async #attempt(what: string, act: () => unknown): Promise<void> {
    try {
      await act();
    } catch (error) {
      await this.#tell(error, undefined, what);
    }
  }

  /**
   * Whether this replica takes messages over. One without the only connection does not: it could not reply.
   */
  #adopt(isWanted: boolean): void {
    this.#endAdopting?.();
    this.#endAdopting = isWanted ? this.#inbox?.onAdopted((message) => this.#begin(adopted(message))) : undefined;
  }

  /** Others have a newer version: they get what is passed on. Not for ever, for they may all be gone again. */
  #giveWay(): void {
    if (this.#givesWay || this.#stopping.signal.aborted) return;
    this.#givesWay = true;
    this.#adopt(false);
    void pause(this.#clock, GIVE_WAY_MS, this.#stopping.signal).then(() => {
      this.#givesWay = false;
      const isServing = this.#provider.exclusive !== true || this.#isConnected;
      this.#adopt(isServing && !this.#stopping.signal.aborted);
    });
  }

  #runExclusive(): Promise<void> {
    return runExclusive({
      coordinator: this.#coordinator,
      provider: this.#provider,
      intake: this.#intake,
      clock: this.#clock,
      stopping: this.#stopping.signal,
      // One that only receives is let go of at once: what runs here goes on sending.
      drained: () => (this.#handlesAlways ? undefined : this.#drained) ?? Promise.resolve(),
      failed: (error) => void this.#tell(error, undefined, `provider ${this.#provider.name}`),
      changed: (isConnected) => this.#connected(isConnected),
    });
  }

  #connected(isConnected: boolean): void {
    const isChanged = this.#isConnected !== isConnected;
    this.#isConnected = isConnected;
    if (this.#handlesAlways || !isChanged) return;
    this.#adopt(isConnected && !this.#stopping.signal.aborted);
    this.#serveSchedules(isConnected);
  }

  #makeSharing(): Sharing | undefined {
    if (this.#provider.accounts === undefined) return undefined;
    return new Sharing({
      provider: this.#provider,
      accounts: this.#provider.accounts,
      coordinator: this.#coordinator,
      store: this.#store,
      clock: this.#clock,
      balanceMs: this.#options.balanceMs ?? BALANCE_MS,
      intake: this.#intake,
      stopping: this.#stopping.signal,
      canPass: this.#passesOn,
      handlesAlways: this.#handlesAlways,
      drained: () => this.#drained ?? Promise.resolve(),
      changed: (count) => this.#connected(count > 0),
      failed: (error, what) => void this.#tell(error, undefined, what),
      tell: (line) => this.#log(`botmesh: ${line}`),
    });
  }

  #prepareSchedules(): Promise<void> {
    return this.#schedules.prepare({
      coordinator: this.#coordinator,
      store: this.#store,
      clock: this.#clock,
      load: this.#load,
      enqueue: this.#enqueue,
      failed: (error, what) => this.#tell(error, undefined, what),
      tell: (line) => this.#log(`botmesh: ${line}`),
    });
  }

  #makeBroadcasts(): Broadcasts {
    return new Broadcasts({
      coordinator: this.#coordinator,
      store: this.#store,
      clock: this.#clock,
      load: this.#load,
      enqueue: this.#enqueue,
      stopping: this.#stopping.signal,
      isStarted: () => this.#health !== 'new',
      isConnected: () => this.#handlesAlways || this.#isConnected,
    });
  }

  /** One without the only connection leads none: its jobs could not reply. */
  #serveSchedules(isWanted: boolean): void {
    const isStopping = this.#stopping.signal.aborted;
    if (isWanted && !isStopping) this.#schedules.start();
    else if (isStopping) this.#schedules.stop();
    else this.#schedules.stop(new LeaseLostError('stopped', 'this replica lost its connection'));
  }

  readonly #enqueue: Enqueue = (chat, job, id) => this.#take({ chat, id: `${RESERVED}job:${id}`, text: '' }, job);

  /** Not before it is taken in: nobody else will see to it. */
  async #inChat(job: Job, chat: string): Promise<void> {
    for (;;) {
      try {
        await job.inChat(chat);
        return;
      } catch (error) {
        if (!(error instanceof CoordinationUnavailableError)) throw error;
        await pause(this.#clock, RETRY_MS, job.signal);
      }
    }
  }

  #begin(work: Work): void {
    if (this.#early !== undefined) {
      this.#early.push(work);
      return;
    }
    const run = new MessageTurn(this.#setup, work).run();
    if (this.#broadcasts.isWaiting) void run.then(() => this.#broadcasts.ended(work.ticket.key, work.id));
  }

  #makeHandling(): Handling {
    const { chat, rulesOf } = this.#scopes;
    const setup = { coordinator: this.#coordinator, store: this.#store, outages: this.#outages, clock: this.#clock };
    return new Handling({ ...setup, rulesOf }, chat);
  }

  #makeSetup(): TurnSetup {
    const replicaId = this.#coordinator.replicaId;
    const runScript = (ctx: Context): unknown => this.#script.run(ctx);
    return {
      coordinator: this.#coordinator,
      isLocal: false,
      oneByOne: this.#options.onUnavailable === 'local' ? new OneByOne() : undefined,
      isDurable: this.#inbox !== undefined,
      mail: this.#mail,
      passesOn: this.#passesOn,
      running: this.#running,
      rules: settleOverlap(this.#options.overlap),
      store: new RuledStore(this.#store, this.#scopes.chat),
      outages: this.#outages,
      provider: this.#sharing?.gate?.guard(this.#provider) ?? this.#provider,
      clock: this.#clock,
      load: this.#load,
      stopping: this.#stopping.signal,
      gate: this.#sharing?.gate,
      forgotten: this.#mail === undefined ? undefined : this.#makeForgotten(this.#mail),
      maxAttempts: this.#options.maxAttempts ?? MAX_ATTEMPTS,
      maxTurnMs: this.#options.maxTurnMs,
      maxProgressMs: this.#options.maxProgressMs ?? PROGRESS_TIMES * (this.#options.maxTurnMs ?? 0),
      graceMs: this.#options.graceMs ?? GRACE_MS,
      retryDelayMs: backoff(this.#options.retryDelayMs ?? 100),
      handle: (attempt) => {
        const ctx = new Context(attempt, replicaId, this.#handling.holding);
        return this.#handling.run(attempt, ctx, runScript);
      },
      failed: (error, attempt, work) =>
        this.#failed(error, attempt, `attempt ${work.attempt} at a message of chat ${work.ticket.key}`),
      steerFailed: (error, attempt, { ticket }) =>
        void this.#failed(error, attempt, `a listener of ctx.onSteer in chat ${ticket.key}`),
      hearsEnds: () => this.#events.count('ended') > 0,
      ended: (chat, message, how, more) => this.#ended(chat, message, how, more),
      pacer: this.#makePacer(),
      unknownSends: this.#options.onUnknownSend,
      unknownSend: (chat, message, did) => this.#events.emit('unknownSend', { chat, ...message, did }),
      progressed: (progress) => this.#events.emit('progress', progress),
      metNewer: () => this.#giveWay(),
      dropped: ({ ticket }, why) => this.#log(`botmesh: a message of chat ${ticket.key} is given up: ${why}.`),
    };
  }

  #makeForgotten(mail: Mailroom): Forgotten {
    const forgotten = new Forgotten({
      clock: this.#clock,
      stopping: this.#stopping.signal,
      isAway: () => this.#health === 'unavailable',
      ended: (chat, message, how, more) => this.#ended(chat, message, how, more),
      tell: (line) => this.#log(`botmesh: WARNING: ${line}`),
    });
    mail.on('forgotten', ({ messages }) => forgotten.heard(messages));
    return forgotten;
  }

  #makeLocal(): LocalLine {
    const { chat } = this.#scopes;
    const store = new MemoryStateStore();
    return new LocalLine(this.#setup, chat.isPlain ? store : new RuledStore(store, chat));
  }

  #makePacer(): Pacer | undefined {
    const { rates } = this.#options;
    if (rates === undefined) return undefined;
    const provider = this.#provider;
    const name = `provider:${provider.name}`;
    const accountOf = (chat: string): string => {
      const account = provider.accountOf?.(chat);
      return account === undefined ? name : `${name}:${account}`;
    };
    const placeOf = (chat: string): string => provider.placeOf?.(chat) ?? chat;
    return new Pacer(this.#clock, this.#mail, { accountOf, placeOf }, rates);
  }

  #rejected(work: Work, message: Message): void {
    const { ticket, id } = work;
    this.#setup.forgotten?.ended(work);
    this.#ended(ticket.key, { seq: ticket.seq, id }, 'rejected', undefined);
    const { onRejected } = this.#options;
    if (onRejected === undefined) return;
    const name = `${message.chat}:${id ?? ticket.seq}`;
    const context = rejectedContext(this.#provider, message, name, this.#stopping.signal);
    void this.#attempt('onRejected', () => onRejected(context));
  }

  #ended(chat: string, { seq, id }: Named, how: How, more: EndDetail | undefined): void {
    const { by, reason, isUnsure } = more ?? {};
    this.#events.emit('ended', {
      chat,
      id,
      seq,
      how,
      ...(by === undefined ? {} : { by }),
      ...(reason === undefined ? {} : { reason }),
      ...(isUnsure === true ? { isUnsure } : {}),
    });
  }

  #failed(error: unknown, attempt: Attempt | undefined, what: string): Promise<void> {
    const ctx = attempt === undefined ? undefined : new Context(attempt, this.#coordinator.replicaId);
    return this.#tell(error, ctx, what);
  }

  /** Never rejects. */
  async #tell(error: unknown, ctx: Context | undefined, what: string): Promise<void> {
    if (this.#hooks.length === 0) this.#log(`botmesh: ${what} failed: ${shown(error)}`);
    for (const hook of this.#hooks) {
      try {
        await hook(error, ctx);
      } catch (thrown) {
        this.#log(`botmesh: an onError hook threw: ${shown(thrown)}`);
      }
    }
  }
}

/**
 * Who keeps the messages. Alone, an inbox of its own would keep them no longer than this process does, so there is none,
 * unless what waits behind a turn has to be looked at.
 *
 * @throws ConfigError when the coordinator cannot do that
 */
function inboxOf({ coordinator }: BotOptions, own: Coordinator, rules: Rules): Inbox | undefined {
  const found = isDurable(own) && (coordinator !== undefined || !rules.areSerial) ? own : undefined;
  if (rules.areSerial || isMailroom(own)) return found;
  throw new ConfigError(
    "Bot: overlap needs a coordinator with a mailroom (a StoreCoordinator has one). Pass one, or overlap: 'serial'.",
  );
}

/** What a log does with a line is no trouble of the bot's. */
function quietly(log: (line: string) => void): (line: string) => void {
  return (line) => {
    try {
      log(line);
    } catch {
      // Nobody is left to tell.
    }
  };
}

function refuse(code: 'not-started' | 'stopped', message: string): Promise<never> {
  return Promise.reject(new LifecycleError(code, message));
}

/** Anything may be thrown, also what cannot be turned into text. */
function shown(error: unknown): string {
  try {
    return error instanceof Error ? (error.stack ?? error.message) : String(error);
  } catch {
    return `a value of type ${typeof error} that cannot be shown`;
  }
}
