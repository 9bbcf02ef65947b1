import type { Coordinator, Leadership } from '../../coordination/types.js';
import { CoordinationUnavailableError, LeaseLostError, LifecycleError } from '../../errors.js';
import type { StateStore } from '../../state/state-store.js';
import type { Clock } from '../../time/clock.js';
import { pause } from '../pause.js';
import { moveName } from '../reserved.js';
import { Roster, type Told } from './Roster.js';
import { isToGive, isToTake } from './share.js';

/** So many looks an account is left to those who have fewer, before it is taken all the same. */
const PATIENT_LOOKS = 2;
/** So many looks one who gave an account away waits for somebody to have it, before anything else moves. */
const LOOKS_FOR_TAKER = 4;
const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;
/** So long after the last try an account that could not be connected counts as if it was here. */
const FORGOTTEN_MS = 10 * LONGEST_DELAY_MS;

/** `gone`: not to be tried again by this process. */
export type Served = 'gone' | undefined;

/**
 * How an account is, seen from one replica. `conflict`: the last connection from here failed, and it is left to the others for
 * a while. `standby`: another replica's, or about to be somebody's.
 */
export type Place = 'held' | 'conflict' | 'standby';

export interface AccountsSetup {
  readonly coordinator: Coordinator;
  /** Shared by all replicas. Where it is not, each account has one holder all the same, but the shares are not fair. */
  readonly store: StateStore;
  readonly clock: Clock;
  /** Each account is led as `<name>:<account>`. Not the same for two sets of accounts. */
  readonly name: string;
  readonly accounts: readonly string[];
  /** From one look at who has what to the next, about. The same in all replicas. */
  readonly balanceMs: number;
  /**
   * Connects an account and sees to it until its leadership is lost or `letGo` aborts. Resolves when the connection is
   * closed; only then the leadership goes. Rejects where it cannot be connected from here: another replica may try, and
   * this one does again later, after a longer pause each time.
   */
  serve(account: string, lead: Leadership, letGo: AbortSignal): Promise<Served>;
  /** Hears what `serve` threw, and, without an account, what kept this replica from looking. Must not throw. */
  failed(error: unknown, account: string | undefined): void;
  /** Hears that an account was given up for a replica with fewer. Must not throw. */
  moved?(account: string): void;
  /** From 0 up to 1. For tests. Default `Math.random`. */
  random?(): number;
}

interface Holding {
  readonly letGo: AbortController;
  readonly ended: Promise<void>;
}

interface Refusal {
  count: number;
  /** Not tried before. */
  untilMs: number;
  lastMs: number;
}

/**
 * Shares accounts among the replicas of a mesh. Each has one holder at a time, by a leadership of its own; replicas have as
 * many as each other, give or take one; and what moves for that does one at a time in the whole mesh, each closed before it
 * is let go.
 */
export class Accounts {
  readonly #setup: AccountsSetup;
  readonly #roster: Roster;
  readonly #held = new Map<string, Holding>();
  readonly #refused = new Map<string, Refusal>();
  readonly #gone = new Set<string>();
  readonly #patience = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #random: () => number;
  #others: readonly Told[] = [];
  #running: Promise<void> | undefined;
  #moving: Promise<void> | undefined;

  constructor(setup: AccountsSetup) {
    this.#setup = setup;
    this.#roster = new Roster(setup);
    this.#random = () => (setup.random ?? Math.random)();
  }

  /** Takes this replica's share, and keeps to it. */
  start(): void {
    this.#running ??= this.#run();
  }

  /** The accounts that this replica leads. */
  get held(): readonly string[] {
    return [...this.#held.keys()];
  }

  /** Whether this process has given it up for good. */
  isGone(account: string): boolean {
    return this.#gone.has(account);
  }

  placeOf(account: string): Place {
    if (this.#held.has(account)) return 'held';
    return this.#refused.has(account) || this.#gone.has(account) ? 'conflict' : 'standby';
  }

  /** Whether another replica has it, as far as this one has heard. */
  isElsewhere(account: string): boolean {
    return this.#others.some(({ held }) => held.includes(account));
  }

  /** Takes none and moves none any more; what it has goes on. */
  async halt(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
    await this.#moving;
  }

  /** Lets all accounts go, each when it is closed. Never rejects. */
  async stop(): Promise<void> {
    // Before they are free: the others then ask for them in every look.
    const left = this.halt().then(() => this.#roster.leave());
    await Promise.all([left.catch(() => {}), ...[...this.#held.values()].map((holding) => end(holding))]);
  }

  async #run(): Promise<void> {
    const { clock, balanceMs } = this.#setup;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#look();
      } catch (error) {
        if (signal.aborted || this.#isOver(error)) return;
        // While the backend is away nothing can be shared out; what is held ends by itself.
        if (!(error instanceof CoordinationUnavailableError)) this.#setup.failed(error, undefined);
      }
      // Not all at the same moment.
      await pause(clock, balanceMs * (0.75 + this.#random() / 2), signal);
    }
  }

  /** This coordinator is done for good. */
  #isOver(error: unknown): boolean {
    return error instanceof LifecycleError || (error instanceof LeaseLostError && error.reason === 'replaced');
  }

  async #look(): Promise<void> {
    await this.#tell();
    if (await this.#takeShare()) await this.#tell();
    if (this.#moving !== undefined || this.#receiver() === undefined) return;
    this.#moving = this.#move()
      .catch(() => {})
      .finally(() => {
        this.#moving = undefined;
      });
  }

  async #tell(): Promise<void> {
    const nowMs = this.#setup.clock.monotonicMs();
    for (const [account, { lastMs }] of this.#refused) {
      if (nowMs - lastMs > FORGOTTEN_MS) this.#refused.delete(account);
    }
    this.#others = await this.#roster.tell({ held: this.held, refused: this.#unheldRefused() });
  }

  #unheldRefused(): string[] {
    return [...this.#gone, ...this.#refused.keys()].filter((account) => !this.#held.has(account));
  }

  get #load(): number {
    return this.#held.size + this.#unheldRefused().length;
  }

  /** Whether it took any. */
  async #takeShare(): Promise<boolean> {
    const { accounts } = this.#setup;
    const loads = this.#others.map(loadOf);
    // Where many begin at once they do not all ask for the same ones first.
    const first = Math.floor(this.#random() * accounts.length);
    const before = this.#held.size;
    for (let n = 0; n < accounts.length && !this.#stopping.signal.aborted; n++) {
      const account = accounts[(first + n) % accounts.length]!;
      if (!this.#isFree(account)) this.#patience.delete(account);
      else if (this.#isWanted(account, loads)) await this.#take(account);
    }
    return this.#held.size > before;
  }

  #isFree(account: string): boolean {
    if (this.#held.has(account) || this.#gone.has(account) || this.isElsewhere(account)) return false;
    return (this.#refused.get(account)?.untilMs ?? 0) <= this.#setup.clock.monotonicMs();
  }

  #isWanted(account: string, loads: readonly number[]): boolean {
    const looks = this.#patience.get(account) ?? 0;
    const isLeft = looks >= 0 && isToTake(this.#load, loads, this.#setup.accounts.length);
    if (isLeft || looks >= PATIENT_LOOKS) return true;
    this.#patience.set(account, looks + 1);
    return false;
  }

  async #take(account: string): Promise<void> {
    const { coordinator, name } = this.#setup;
    const lead = await coordinator.tryLead(`${name}:${account}`);
    if (lead === null) return;
    if (this.#stopping.signal.aborted) return lead.resign();
    this.#patience.delete(account);
    const letGo = new AbortController();
    this.#held.set(account, { letGo, ended: this.#serve(account, lead, letGo.signal) });
  }

  /** Never rejects. */
  async #serve(account: string, lead: Leadership, letGo: AbortSignal): Promise<void> {
    const { clock } = this.#setup;
    const startedMs = clock.monotonicMs();
    let isRefused = false;
    try {
      if ((await this.#setup.serve(account, lead, letGo)) === 'gone') this.#gone.add(account);
    } catch (error) {
      isRefused = !lead.signal.aborted && !letGo.aborted;
      this.#setup.failed(error, account);
    }
    const lastedMs = clock.monotonicMs() - startedMs;
    if (!isRefused || lastedMs > LONGEST_DELAY_MS) this.#refused.delete(account);
    if (isRefused) this.#refuse(account);
    await lead.resign();
    this.#held.delete(account);
  }

  #refuse(account: string): void {
    const lastMs = this.#setup.clock.monotonicMs();
    const count = (this.#refused.get(account)?.count ?? 0) + 1;
    const delayMs = Math.min(FIRST_DELAY_MS * 2 ** (count - 1), LONGEST_DELAY_MS);
    this.#refused.set(account, { count, lastMs, untilMs: lastMs + delayMs });
  }

  /** Who has so many fewer that it is to be given one. */
  #receiver(): Told | undefined {
    const loads = this.#others.map(loadOf);
    if (!isToGive(this.#load, loads)) return undefined;
    return this.#others[loads.indexOf(Math.min(...loads))];
  }

  /** One at a time in the whole mesh: the next when this one has its new holder, or nobody took it. */
  async #move(): Promise<void> {
    const { coordinator, clock, balanceMs, name } = this.#setup;
    const { signal } = this.#stopping;
    const move = await coordinator.tryLead(moveName(name));
    if (move === null) return;
    try {
      // The last move may have settled it.
      await this.#tell();
      const receiver = this.#receiver();
      const account = this.held.find((each) => !receiver?.refused.includes(each));
      const holding = account === undefined ? undefined : this.#held.get(account);
      if (account === undefined || holding === undefined || receiver === undefined || signal.aborted) return;
      // For those who have fewer.
      this.#patience.set(account, -PATIENT_LOOKS);
      await end(holding);
      this.#setup.moved?.(account);
      await this.#tell();
      for (let n = 0; n < LOOKS_FOR_TAKER && !this.isElsewhere(account) && !signal.aborted; n++) {
        await pause(clock, balanceMs, signal, move.signal);
      }
    } finally {
      await move.resign();
    }
  }
}

function end({ letGo, ended }: Holding): Promise<void> {
  letGo.abort();
  return ended;
}

function loadOf({ held, refused }: Told): number {
  return held.length + refused.length;
}
