import type {
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  JoinAnswer,
  JoinRequest,
  LeaveRequest,
  MeshConfig,
  PaceAnswer,
  PaceRequest,
  Push,
  Store,
  StoreView,
  Waiting,
  WaitingRequest,
} from '../coordination/store.js';
import type { Clock } from '../time/clock.js';
import { Gate } from './Gate.js';
import { type RequestKind, type StrikeRate, Strikes } from './Strikes.js';

export type { RequestKind, StrikeRate } from './Strikes.js';

/** What a fault applies to: requests on their way to the store, answers on their way back, pushes, or everything. */
export type Way = 'requests' | 'answers' | 'pushes' | 'all';

export interface LinkCounts {
  readonly requests: Record<RequestKind, number>;
  readonly pushes: Record<Push['kind'], number>;
}

export interface LinkOptions {
  /** Times delays. Time on the way passes whether or not the replica runs, so it is not the replica's own clock. */
  clock: Clock;
  /** Decides which requests a probability strikes, and delays. */
  random?: () => number;
  /** The store answers within the macrotask of the request, so that an answer never has to be held back. */
  answersAtOnce?: boolean;
}

const NO_DELAY = { minMs: 0, maxMs: 0 };

/**
 * The way from one replica to a store, with faults. Without any it passes calls straight on. Lost requests and answers
 * never settle, as with a real network: whoever calls must bound its wait.
 */
export class Link implements Store {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #answersAtOnce: boolean;
  readonly #gate: Gate;
  readonly #lose: Strikes;
  readonly #repeat: Strikes;
  readonly #drop: Strikes;
  readonly #cut = { requests: false, answers: false, pushes: false };
  readonly #unsubscribe = new Set<() => Promise<void>>();
  /** Counts the times that all subscriptions were ended. */
  #connection = 0;
  #delay = NO_DELAY;
  #repeatAfterMs = 0;
  #isFaulty = false;
  #config: Partial<MeshConfig> = {};
  #epochs: number[] = [];

  /** Requests as the replica made them (repeats not counted) and pushes as the store sent them, lost ones too. */
  readonly counts: LinkCounts = {
    requests: { join: 0, apply: 0, beat: 0, leave: 0, waiting: 0, pace: 0, subscribe: 0, inspect: 0 },
    pushes: { grant: 0, look: 0, replaced: 0, ping: 0 },
  };

  constructor(store: Store, options: LinkOptions) {
    this.#store = store;
    this.#clock = options.clock;
    this.#random = options.random ?? (() => options.clock.random());
    this.#answersAtOnce = options.answersAtOnce ?? false;
    this.#gate = new Gate(options.clock);
    this.#lose = new Strikes(this.#random);
    this.#repeat = new Strikes(this.#random);
    this.#drop = new Strikes(this.#random);
  }

  /** The epochs that the store gave over this link, also where the answer was lost. */
  get epochs(): readonly number[] {
    return this.#epochs;
  }

  /** Holds requests, answers and pushes until `thaw`. What is on its way to the store gets there. */
  freeze(): void {
    this.#gate.shut();
  }

  /** Lets what was held go on, in order, one macrotask apart. */
  thaw(): void {
    this.#gate.open();
  }

  /** Loses everything that goes one way, also what is on its way now. */
  cut(way: Way = 'all'): void {
    this.#setCut(way, true);
  }

  /** Ends `cut`. What was lost stays lost. */
  heal(way: Way = 'all'): void {
    this.#setCut(way, false);
  }

  /** Makes every request, answer and push take between `minMs` and `maxMs`. They may overtake each other. */
  delay(minMs: number, maxMs: number = minMs): void {
    this.#delay = { minMs, maxMs };
    this.#update();
  }

  /** Loses answers after the store has done the step. */
  loseAnswers(rate: StrikeRate): void {
    this.#lose.set(rate);
    this.#update();
  }

  /** Brings requests to the store twice, the second time `afterMs` after the first was answered. */
  repeatRequests(rate: StrikeRate, afterMs = 0): void {
    this.#repeat.set(rate);
    this.#repeatAfterMs = afterMs;
    this.#update();
  }

  dropPushes(rate: StrikeRate): void {
    this.#drop.set(rate);
    this.#update();
  }

  /** Joins as a replica that is set up so, or was built for another format, would. */
  pretend(config: Partial<MeshConfig>): void {
    this.#config = config;
  }

  /** The replica is gone: nothing more is sent or heard. What is on its way to the store gets there. */
  kill(): void {
    this.#gate.remove();
    this.#endSubscriptions();
  }

  #endSubscriptions(): void {
    this.#connection += 1;
    for (const unsubscribe of this.#unsubscribe) unsubscribe().catch(() => {});
    this.#unsubscribe.clear();
  }

  join(request: JoinRequest): Promise<JoinAnswer> {
    const call = async (): Promise<JoinAnswer> => {
      const answer = await this.#store.join({ ...request, config: { ...request.config, ...this.#config } });
      if (answer.kind === 'joined') this.#epochs = [...new Set([...this.#epochs, answer.epoch])];
      return answer;
    };
    return this.#request('join', call);
  }

  apply(request: ApplyRequest): Promise<ApplyAnswer> {
    if (this.#passes('apply')) return this.#store.apply(request);
    return this.#send('apply', () => this.#store.apply(request));
  }

  beat(request: BeatRequest): Promise<BeatAnswer> {
    if (this.#passes('beat')) return this.#store.beat(request);
    return this.#send('beat', () => this.#store.beat(request));
  }

  leave(request: LeaveRequest): Promise<void> {
    return this.#request('leave', () => this.#store.leave(request));
  }

  waiting(request: WaitingRequest): Promise<readonly Waiting[]> {
    return this.#request('waiting', () => this.#store.waiting(request));
  }

  pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.#request('pace', () => this.#store.pace(request));
  }

  inspect(): Promise<StoreView> {
    return this.#request('inspect', () => this.#store.inspect());
  }

  subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    const connection = this.#connection;
    return this.#request('subscribe', async () => {
      const unsubscribe = await this.#store.subscribe(instance, (push) => this.#push(push, listener));
      // It was on its way when its connection was closed.
      if (connection !== this.#connection) await unsubscribe();
      else this.#unsubscribe.add(unsubscribe);
      return async () => {
        this.#unsubscribe.delete(unsubscribe);
        await unsubscribe();
      };
    });
  }

  /** Closes the store behind it, whatever the faults, and with it subscriptions whose answer was lost. */
  close(): Promise<void> {
    this.#endSubscriptions();
    return this.#store.close();
  }

  #passes(kind: RequestKind): boolean {
    this.counts.requests[kind] += 1;
    return this.#answersAtOnce && !this.#isFaulty && this.#gate.isClear;
  }

  #request<T>(kind: RequestKind, call: () => Promise<T>): Promise<T> {
    return this.#passes(kind) ? call() : this.#send(kind, call);
  }

  #send<T>(kind: RequestKind, call: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#gate.pass(() => {
        const isRepeated = this.#repeat.strike(kind);
        const isLost = this.#lose.strike(kind);
        const back = (settle: () => void): void => {
          if (isRepeated) this.#clock.setTimer(this.#repeatAfterMs, () => void call().catch(() => {}));
          if (!isLost) this.#travel('answers', () => this.#gate.pass(settle));
        };
        this.#travel('requests', () => {
          call().then(
            (answer) => back(() => resolve(answer)),
            (error: unknown) => back(() => reject(error)),
          );
        });
      });
    });
  }

  #push(push: Push, listener: (push: Push) => void): void {
    this.counts.pushes[push.kind] += 1;
    if (this.#drop.strike(push.kind)) return;
    this.#travel('pushes', () => this.#gate.pass(() => listener(push)));
  }

  #travel(way: 'requests' | 'answers' | 'pushes', arrive: () => void): void {
    if (this.#cut[way]) return;
    const { minMs, maxMs } = this.#delay;
    if (maxMs === 0) {
      arrive();
      return;
    }
    this.#clock.setTimer(minMs + this.#random() * (maxMs - minMs), () => {
      if (!this.#cut[way]) arrive();
    });
  }

  #setCut(way: Way, isCut: boolean): void {
    for (const one of way === 'all' ? (['requests', 'answers', 'pushes'] as const) : [way]) this.#cut[one] = isCut;
    this.#update();
  }

  #update(): void {
    const isCut = this.#cut.requests || this.#cut.answers || this.#cut.pushes;
    this.#isFaulty = isCut || this.#delay.maxMs > 0 || [this.#lose, this.#repeat, this.#drop].some((s) => s.isArmed);
  }
}
