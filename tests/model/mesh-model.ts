import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  emptyRecord,
  FORMAT,
  type Moment,
  type Outgoing,
  transitions,
} from '@botmesh/core/spi';
import type { MeshState } from './mesh-state.js';
import {
  ALL_RULES,
  believed,
  type Client,
  type ClientRules,
  type Flight,
  LEASE_TICKS,
  look,
  newClient,
  onApplied,
  onBeat,
  onGrant,
  onJoined,
  TICK_MS,
} from './model-client.js';
import { cloneRecord } from './record-copy.js';
import { isNews } from './state-key.js';

/** How much may happen at most. What is not listed may happen as often as it likes, over any length of time. */
export interface Bounds {
  /** How long it goes on. */
  readonly ticks: number;
  readonly replicas: number;
  readonly keys: number;
  /** Reservations of each replica. */
  readonly reserves: number;
  readonly crashes: number;
  /** Pauses of any length, from one tick to for ever. */
  readonly pauses: number;
  /** Further starts with the replicaId of one that runs or crashed. */
  readonly starts: number;
  /** Answers lost, and requests or answers held up for any time. */
  readonly losses: number;
  /** Server changes: a restart, a wipe, or (with `rollback`) a return to an earlier record. */
  readonly serverChanges: readonly ('restart' | 'wipe' | 'rollback')[];
  readonly changes: number;
  /** Steps of the server's clock, in ticks, and how many. */
  readonly clockSteps: readonly number[];
  readonly steps: number;
}

export interface Steps {
  join: typeof transitions.join;
  apply: typeof transitions.apply;
  beat: typeof transitions.beat;
}

export interface ModelOptions {
  readonly bounds: Bounds;
  /** The steps under test; a planted bug hands in others. */
  readonly steps?: Partial<Steps>;
  readonly rules?: Partial<ClientRules>;
}

const CONFIG = { format: FORMAT, leaseMs: LEASE_TICKS * TICK_MS, shards: 1 };
/** Stamps are microseconds: the mesh is as old as this when it starts. */
const START_MS = 1_000_000;

type Next = readonly [string, MeshState];

/** Every behaviour of a few replicas over the shipped transitions, within bounds. */
export class MeshModel {
  readonly #bounds: Bounds;
  readonly #steps: Steps;
  readonly #rules: ClientRules;

  constructor({ bounds, steps, rules }: ModelOptions) {
    this.#bounds = bounds;
    this.#steps = { join: transitions.join, apply: transitions.apply, beat: transitions.beat, ...steps };
    this.#rules = { ...ALL_RULES, ...rules };
  }

  /** All replicas have joined, one after the other. */
  start(): MeshState {
    const { replicas, reserves, crashes, pauses, starts, losses, changes, steps } = this.#bounds;
    const clients = Array.from({ length: replicas }, (_, n) => newClient(`r${n}`, `r${n}.0`));
    const left = { reserves: clients.map(() => reserves), crashes, pauses, starts, losses, changes, steps };
    const record = { ...emptyRecord(), run: 'run 0' };
    const empty = { record, run: 0, now: 0, ahead: 0, clients, copy: undefined, left, last: {}, wrong: undefined };
    return clients.reduce<MeshState>((state, _, n) => this.#join(state, n), empty);
  }

  *next(state: MeshState): Generator<Next> {
    for (const [n, client] of state.clients.entries()) {
      if (client.phase === 'off') continue;
      if (client.isPaused) yield [`${client.replicaId} goes on`, this.#set(state, n, { ...client, isPaused: false })];
      else if (client.phase === 'in') yield* this.#acts(state, n, client);
      if (!client.isPaused && state.left.pauses > 0) {
        yield [
          `${client.replicaId} is paused`,
          this.#spend(this.#set(state, n, { ...client, isPaused: true }), 'pauses'),
        ];
      }
      if (state.left.crashes > 0) yield [`${client.replicaId} crashes`, this.#crash(state, n)];
    }
    if (state.now < this.#bounds.ticks) yield ['a tick', this.#tick(state)];
    yield* this.#serverActs(state);
  }

  // ── What a replica does ────────────────────────────────────────────────────────────────────────────────────────────

  *#acts(state: MeshState, n: number, client: Client): Generator<Next> {
    const { replicaId, flight } = client;
    if (isNews(client)) yield [`${replicaId} hears a push`, this.#hearPush(state, n)];
    if (flight !== undefined) {
      if (flight.answer === undefined) yield [`${replicaId}'s ${flight.kind} arrives`, this.#arrive(state, n)];
      else yield [`${replicaId} hears the answer to its ${flight.kind}`, this.#hear(state, n)];
      if (flight.kind === 'beat')
        yield [`${replicaId} gives its beat up`, this.#set(state, n, { ...client, flight: undefined })];
      else if (flight.answer !== undefined && state.left.losses > 0) {
        const again = { ...client, flight: { ...flight, answer: undefined } };
        yield [
          `the answer to ${replicaId}'s ${flight.kind} is lost`,
          this.#spend(this.#set(state, n, again), 'losses'),
        ];
      }
      return;
    }
    // Heartbeats are due with every tick. One more matters only around a step of the clock, or held up.
    const beat = this.#beat(look(client, state.now, this.#rules), state.now);
    for (const [label, next] of this.#send(state, n, 'beats', beat)) {
      if (this.#bounds.steps > 0 || label.endsWith('held up')) yield [label, next];
    }
    if ((state.left.reserves[n] ?? 0) > 0) {
      for (let key = 0; key < this.#bounds.keys; key++) {
        const sent = this.#apply(client, state.now, { op: 'reserve', key: `k${key}` });
        yield* this.#send(this.#spendReserve(state, n), n, `reserves k${key}`, sent);
      }
    }
    for (const place of believed(client, state.now, this.#rules)) {
      const places = client.places.map((each) => (each === place ? { ...each, isEnding: true } : each));
      const { key, seq } = place;
      const sent = this.#apply({ ...client, places }, state.now, { op: 'release', key, seq, how: 'done' });
      yield* this.#send(state, n, `releases ${key}`, sent);
    }
  }

  /** At once; or with the answer, or already the request, held up on the way. */
  *#send(state: MeshState, n: number, what: string, sent: Client): Generator<Next> {
    const name = sent.replicaId;
    const onTheWay = this.#set(state, n, sent);
    const arrived = this.#arrive(onTheWay, n);
    yield [`${name} ${what}`, this.#hear(arrived, n)];
    if (state.left.losses === 0) return;
    yield [`${name} ${what}, the request held up`, this.#spend(onTheWay, 'losses')];
    yield [`${name} ${what}, the answer held up`, this.#spend(arrived, 'losses')];
  }

  #beat(client: Client, now: number): Client {
    const { epoch, instance, era, seen, answered } = client;
    const view = client.places.map(({ key, seq, fence }) => ({ key, seq, fence }));
    const beats = client.beats + 1;
    const watchedMs = (now - client.eraSince) * TICK_MS;
    const own = { epoch, instance, beat: beats, era, watchedMs, seen, adopts: false, answered };
    const request: BeatRequest = { ...own, heard: 0, view };
    return { ...client, beats, flight: { kind: 'beat', sentAt: now, request, answer: undefined } };
  }

  #apply(client: Client, now: number, op: ApplyRequest['ops'][number]): Client {
    const batch = client.batch + 1;
    const request: ApplyRequest = { epoch: client.epoch, instance: client.instance, batch, ops: [op] };
    return { ...client, batch, flight: { kind: 'apply', sentAt: now, request, answer: undefined } };
  }

  #arrive(state: MeshState, n: number): MeshState {
    const client = state.clients[n] as Client;
    const flight = client.flight as Flight;
    const record = cloneRecord(state.record);
    const pushes: Outgoing[] = [];
    const answer =
      flight.kind === 'beat'
        ? this.#steps.beat(record, flight.request as BeatRequest, this.#moment(state), pushes)
        : this.#steps.apply(record, flight.request as ApplyRequest, this.#moment(state), pushes);
    const stepped = this.#push({ ...state, record }, pushes);
    return this.#set(stepped, n, { ...(stepped.clients[n] as Client), flight: { ...flight, answer } });
  }

  #hear(state: MeshState, n: number): MeshState {
    const client = state.clients[n] as Client;
    const flight = client.flight as Flight;
    const answer = flight.answer as BeatAnswer | ApplyAnswer;
    const heard =
      flight.kind === 'beat'
        ? onBeat(client, answer as BeatAnswer, flight, state.now, this.#rules)
        : onApplied(client, answer as ApplyAnswer, flight, state.now, this.#rules);
    return this.#judge(this.#set(state, n, heard));
  }

  #hearPush(state: MeshState, n: number): MeshState {
    const client = state.clients[n] as Client;
    const { pushed } = client;
    const without = { ...client, pushed: undefined };
    if (pushed === undefined || pushed.epoch !== client.epoch) return this.#set(state, n, without);
    return this.#judge(this.#set(state, n, onGrant(without, pushed, pushed.era, state.now, this.#rules)));
  }

  #join(state: MeshState, n: number): MeshState {
    const client = state.clients[n] as Client;
    const { replicaId, instance, firstEpoch, seen } = client;
    const record = cloneRecord(state.record);
    const pushes: Outgoing[] = [];
    const request = { replicaId, instance, firstEpoch, config: CONFIG, adopts: false, seen };
    const answer = this.#steps.join(record, request, this.#moment(state), pushes);
    const joined = onJoined(client, answer, state.now);
    return this.#set(this.#push({ ...state, record }, pushes), n, joined);
  }

  /** Time passes: watchdogs look at the clock (those of the paused before anything else they do), and all others beat. */
  #tick(state: MeshState): MeshState {
    const now = state.now + 1;
    let next: MeshState = { ...state, now, clients: state.clients.map((client) => look(client, now, this.#rules)) };
    for (const n of state.clients.keys()) {
      const client = next.clients[n] as Client;
      if (client.isPaused) continue;
      if (client.phase === 'out') next = this.#join(next, n);
      else if (client.phase === 'in' && client.flight === undefined) {
        next = this.#hear(this.#arrive(this.#set(next, n, this.#beat(client, now)), n), n);
      }
    }
    return next;
  }

  #push(state: MeshState, pushes: readonly Outgoing[]): MeshState {
    let { clients } = state;
    for (const { instance, push } of pushes) {
      if (push.kind !== 'grant') continue;
      clients = clients.map((client) => (client.instance === instance ? { ...client, pushed: push } : client));
    }
    return { ...state, clients };
  }

  #crash(state: MeshState, n: number): MeshState {
    const client = state.clients[n] as Client;
    const gone: Client = { ...newClient(client.replicaId, client.instance), phase: 'off' };
    return this.#spend(this.#set(state, n, gone), 'crashes');
  }

  // ── What the server does ───────────────────────────────────────────────────────────────────────────────────────────

  *#serverActs(state: MeshState): Generator<Next> {
    if (state.left.starts > 0) {
      for (const [n, client] of state.clients.entries()) {
        const again = newClient(client.replicaId, `${client.replicaId}.${state.left.starts}`);
        const clients = [...state.clients, again];
        const reserves = [...state.left.reserves, this.#bounds.reserves];
        const more = { ...state, clients, left: { ...state.left, starts: state.left.starts - 1, reserves } };
        if (n < this.#bounds.replicas)
          yield [`${client.replicaId} is started again`, this.#join(more, clients.length - 1)];
      }
    }
    if (state.left.steps > 0) {
      for (const ticks of this.#bounds.clockSteps) {
        const left = { ...state.left, steps: state.left.steps - 1 };
        yield [`the server's clock steps by ${ticks}`, { ...state, ahead: state.ahead + ticks, left }];
      }
    }
    if (state.left.changes > 0) yield* this.#changes(state);
  }

  *#changes(state: MeshState): Generator<Next> {
    const changes = this.#bounds.serverChanges;
    const changed = { ...state, run: state.run + 1, left: { ...state.left, changes: state.left.changes - 1 } };
    if (changes.includes('restart')) yield ['the server restarts', changed];
    if (changes.includes('wipe')) yield ['the server loses all data', { ...changed, record: emptyRecord() }];
    if (!changes.includes('rollback')) return;
    if (state.copy === undefined) yield ['a copy is made', { ...state, copy: cloneRecord(state.record) }];
    else yield ['the server goes back to the copy', { ...changed, record: cloneRecord(state.copy), copy: undefined }];
  }

  #moment(state: MeshState): Moment {
    return { nowMs: START_MS + (state.now + state.ahead) * TICK_MS, run: `run ${state.run}` };
  }

  // ── What may never be ──────────────────────────────────────────────────────────────────────────────────────────────

  /** Looks at what everybody believes now. */
  #judge(state: MeshState): MeshState {
    const holders = new Map<string, { who: string; fence: number; seq: number }>();
    let { last, wrong } = state;
    for (const client of state.clients) {
      for (const { key, fence, seq } of believed(client, state.now, this.#rules)) {
        const other = holders.get(key);
        const who = client.instance;
        if (other !== undefined)
          wrong ??= `${other.who} (fence ${other.fence}) and ${who} (fence ${fence}) both believe in ${key}`;
        holders.set(key, { who, fence, seq });
        const before = last[key] ?? { fence: 0, seq: 0 };
        if (fence === before.fence && seq === before.seq) continue;
        if (fence <= before.fence) wrong ??= `${key} is granted to ${who} under fence ${fence} after ${before.fence}`;
        const mayGoBack = this.#bounds.serverChanges.includes('rollback');
        if (seq < before.seq && !mayGoBack) wrong ??= `${key} is granted to place ${seq} after place ${before.seq}`;
        last = { ...last, [key]: { fence, seq } };
      }
    }
    return { ...state, last, wrong };
  }

  // ── Small things ───────────────────────────────────────────────────────────────────────────────────────────────────

  #set(state: MeshState, n: number, client: Client): MeshState {
    return { ...state, clients: state.clients.map((each, at) => (at === n ? client : each)) };
  }

  #spend(state: MeshState, what: 'crashes' | 'pauses' | 'losses'): MeshState {
    return { ...state, left: { ...state.left, [what]: state.left[what] - 1 } };
  }

  #spendReserve(state: MeshState, n: number): MeshState {
    const reserves = state.left.reserves.map((left, at) => (at === n ? left - 1 : left));
    return { ...state, left: { ...state.left, reserves } };
  }

  /**
   * Whether everything comes to its end from here when nothing more goes wrong: everybody beats every tick, hears what is
   * on its way, joins again where it is out, and lets go of what it is granted. Undefined when it does.
   */
  stuck(from: MeshState, ticks = 24): string | undefined {
    let state: MeshState = { ...from, clients: from.clients.map((client) => ({ ...client, isPaused: false })) };
    for (let tick = 0; tick < ticks; tick++) {
      for (const n of state.clients.keys()) state = this.#calmly(state, n);
      state = { ...state, now: state.now + 1 };
    }
    const [queue] = transitions.inspect(state.record, this.#moment(state).nowMs).queues;
    if (queue !== undefined) return `${JSON.stringify(queue)} is left after ${ticks} quiet ticks`;
    const waiting = state.clients.find((client) => client.places.length > 0);
    return waiting === undefined ? undefined : `${waiting.instance} still waits after ${ticks} quiet ticks`;
  }

  #calmly(from: MeshState, n: number): MeshState {
    let state = from;
    const client = (): Client => state.clients[n] as Client;
    const finish = (): void => {
      if (client().flight !== undefined && client().flight?.answer === undefined) state = this.#arrive(state, n);
      if (client().flight !== undefined) state = this.#hear(state, n);
    };
    finish();
    if (client().phase === 'out') state = this.#join(state, n);
    if (client().phase !== 'in') return state;
    state = this.#set(state, n, this.#beat(look(client(), state.now, this.#rules), state.now));
    finish();
    for (const place of believed(client(), state.now, this.#rules)) {
      const { key, seq } = place;
      state = this.#set(state, n, this.#apply(client(), state.now, { op: 'release', key, seq, how: 'done' }));
      finish();
    }
    return state;
  }
}
