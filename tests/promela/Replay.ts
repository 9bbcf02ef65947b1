import {
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  FORMAT,
  type Op,
  type Push,
  systemClock,
} from '@botmesh/core/spi';
import { MemoryStore } from '@botmesh/core/testing';
import {
  ALL_RULES,
  believed,
  type Client,
  type Flight,
  isTrusted,
  LEASE_TICKS,
  look,
  newClient,
  onApplied,
  onBeat,
  onGrant,
  onJoined,
  TICK_MS,
} from '../model/model-client.js';
import type { Happening, Holding } from './trace.js';

/** A tick of the Promela model is a third of a lease; model-client counts in sixths. */
const TICKS = 2;
const CONFIG = { format: FORMAT, leaseMs: LEASE_TICKS * TICK_MS, shards: 1 };
const KEY = 'k';
const NOBODY = 255;
const DAY_MS = 86_400_000;

export interface ReplayOptions {
  readonly replicas: number;
  /** So many of the tickets are messages. */
  readonly messages: number;
  /** The last replica is a later start of the first one. */
  readonly hasTwin: boolean;
}

interface Replica {
  client: Client;
  /** Its heartbeat on the way: with an answer it is on its way back. */
  beat: Flight | undefined;
  /** Its operation whose answer it has not heard. */
  operation: Flight | undefined;
  lastApplied: ApplyRequest | undefined;
  pushed: (Push & { kind: 'grant' }) | undefined;
}

/** The steps of a trace, made on the reference store by replicas that hear what it really answers. */
export class Replay {
  readonly #options: ReplayOptions;
  readonly #replicas: Replica[] = [];
  readonly #seqs = new Map<number, number>();
  #wallMs = 1_750_000_000_000;
  readonly #store = new MemoryStore({ clock: { ...systemClock, wallMs: () => this.#wallMs } });
  #now = 0;
  #topFence = 0;
  readonly #ended = new Set<number>();
  /** The first rule that was seen broken. */
  wrong: string | undefined;

  constructor(options: ReplayOptions) {
    this.#options = options;
  }

  /** All replicas but a twin join, one after the other. */
  async start(): Promise<void> {
    const { hasTwin, replicas } = this.#options;
    for (let r = 0; r < replicas; r++) {
      const isTwin = hasTwin && r === replicas - 1;
      const client = newClient(isTwin ? 'r0' : `r${r}`, `i${r}`);
      this.#replicas.push({ client, beat: undefined, operation: undefined, lastApplied: undefined, pushed: undefined });
      await this.#store.subscribe(client.instance, (push) => {
        if (push.kind === 'grant') this.#at(r).pushed = push;
      });
    }
    for (let r = 0; r < replicas - (hasTwin ? 1 : 0); r++) await this.#join(r);
  }

  async make({ isPrompt, op, ticket, what, who }: Happening): Promise<void> {
    const liveBefore = this.#live();
    await this.#make(what, who, op, ticket, isPrompt);
    this.#judge(what, who, liveBefore);
  }

  async #make(what: string, who: number, op: string, ticket: number, isPrompt: boolean): Promise<void> {
    switch (what) {
      case 'TICK':
        this.#now += TICKS * who;
        this.#wallMs += TICKS * TICK_MS * who;
        for (const replica of this.#replicas) replica.client = look(replica.client, this.#now, ALL_RULES);
        return;
      case 'LEAP':
        this.#store.stepClock(TICKS * TICK_MS * who);
        return;
      case 'RESTART':
        this.#store.restart();
        return;
      case 'WIPE':
        this.#store.wipe();
        return;
      case 'JOIN':
        return this.#join(who);
      case 'BEAT':
        this.#send(who);
        await this.#arrive(who);
        this.#hear(who);
        return;
      case 'SEND':
        return this.#send(who);
      case 'ARRIVE':
        return this.#arrive(who);
      case 'HEAR':
        return this.#hear(who);
      case 'GIVE_UP':
        this.#at(who).beat = undefined;
        return;
      case 'OPERATE':
        await this.#operate(who, op, ticket);
        if (isPrompt) this.#hearOperation(who);
        return;
      case 'ASK_AGAIN':
        return this.#askAgain(who);
      case 'DOUBLED':
        return this.#double(who);
      case 'PUSH':
        this.#hearPush(who);
        return;
      case 'PUSH_LOST':
        this.#at(who).pushed = undefined;
        return;
      case 'LEAVE':
        await this.#store.leave({ epoch: this.#at(who).client.epoch, instance: this.#at(who).client.instance });
        this.#end(who);
        return;
      case 'CRASH':
        this.#end(who);
        return;
      case 'PAUSE':
      case 'RESUME':
        return;
      default:
        throw new Error(`what is ${what}?`);
    }
  }

  // ── What a replica does ────────────────────────────────────────────────────────────────────────────────────────────

  async #join(r: number): Promise<void> {
    const replica = this.#at(r);
    const { firstEpoch, instance, replicaId, seen } = replica.client;
    const answer = await this.#store.join({ replicaId, instance, firstEpoch, config: CONFIG, adopts: true, seen });
    replica.client = onJoined(replica.client, answer, this.#now);
  }

  #send(r: number): void {
    const replica = this.#at(r);
    const client = look(replica.client, this.#now, ALL_RULES);
    if (client.phase !== 'in') return;
    const { answered, epoch, era, eraSince, instance, places, seen } = client;
    const request: BeatRequest = {
      epoch,
      instance,
      beat: client.beats + 1,
      era,
      watchedMs: (this.#now - eraSince) * TICK_MS,
      seen,
      adopts: true,
      answered,
      heard: 0,
      view: places.map(({ key, seq, fence }) => ({ key, seq, fence })),
    };
    replica.client = { ...client, beats: request.beat };
    replica.beat = { kind: 'beat', sentAt: this.#now, request, answer: undefined };
  }

  async #arrive(r: number): Promise<void> {
    const { beat } = this.#at(r);
    if (beat === undefined) return;
    const answer = await this.#store.beat(beat.request as BeatRequest);
    this.#at(r).beat = { ...beat, answer };
  }

  #hear(r: number): void {
    const replica = this.#at(r);
    const { beat } = replica;
    if (beat?.answer === undefined) return;
    replica.beat = undefined;
    replica.client = onBeat(replica.client, beat.answer as BeatAnswer, beat, this.#now, ALL_RULES);
    this.#forgetWhenOut(r);
  }

  async #operate(r: number, what: string, ticket: number): Promise<void> {
    const replica = this.#at(r);
    const { client } = replica;
    const op = what === 'RESERVE' ? this.#placing(ticket) : this.#ending(client, ticket);
    if (op === undefined || client.phase !== 'in') return;
    const batch = client.batch + 1;
    const request: ApplyRequest = { epoch: client.epoch, instance: client.instance, batch, ops: [op] };
    const isIts = (seq: number): boolean => op.op === 'release' && op.seq === seq;
    const places = client.places.map((place) => (isIts(place.seq) ? { ...place, isEnding: true } : place));
    replica.client = { ...client, batch, places };
    const answer = await this.#store.apply(request);
    replica.lastApplied = request;
    replica.operation = { kind: 'apply', sentAt: this.#now, request, answer };
    if (answer.kind !== 'applied') return;
    const [taken] = answer.results;
    if (op.op === 'release') this.#ended.add(op.seq);
    else if (taken) this.#seqs.set(ticket, taken.seq);
  }

  #placing(ticket: number): Op {
    if (ticket >= this.#options.messages) return { op: 'reserve', key: KEY };
    return { op: 'accept', key: KEY, id: `m${ticket}`, body: '', maxAttempts: 99, dedupeMs: DAY_MS };
  }

  #ending({ places }: Client, ticket: number): Op | undefined {
    const place = places.find(({ seq }) => seq === this.#seqs.get(ticket));
    if (place === undefined) return undefined;
    return { op: 'release', key: KEY, seq: place.seq, how: place.fence === 0 ? 'withdraw' : 'done' };
  }

  #hearOperation(r: number): void {
    const replica = this.#at(r);
    const { operation } = replica;
    if (operation?.answer === undefined || operation.answer.kind === 'alive') return;
    replica.operation = undefined;
    replica.client = onApplied(replica.client, operation.answer, operation, this.#now, ALL_RULES);
    this.#forgetWhenOut(r);
  }

  async #askAgain(r: number): Promise<void> {
    const replica = this.#at(r);
    const { operation } = replica;
    if (operation === undefined) return;
    replica.operation = { ...operation, answer: await this.#store.apply(operation.request as ApplyRequest) };
    this.#hearOperation(r);
  }

  async #double(r: number): Promise<void> {
    const { lastApplied } = this.#at(r);
    if (lastApplied !== undefined) await this.#store.apply(lastApplied);
  }

  #hearPush(r: number): void {
    const replica = this.#at(r);
    const { client, pushed } = replica;
    replica.pushed = undefined;
    if (pushed === undefined || pushed.epoch !== client.epoch) return;
    replica.client = onGrant(client, pushed, pushed.era, this.#now, ALL_RULES);
  }

  #end(r: number): void {
    const replica = this.#at(r);
    replica.client = { ...newClient(replica.client.replicaId, replica.client.instance), phase: 'off' };
    this.#forgetWhenOut(r);
  }

  #forgetWhenOut(r: number): void {
    const replica = this.#at(r);
    if (replica.client.phase === 'in') return;
    replica.beat = undefined;
    replica.operation = undefined;
    replica.pushed = undefined;
  }

  // ── Who has what ───────────────────────────────────────────────────────────────────────────────────────────────────

  /** In the form in which the model tells it. */
  holding(): Holding {
    const { record } = this.#store.snapshot();
    const live = this.#live();
    const tickets = new Map([...this.#seqs].map(([ticket, seq]) => [seq, ticket]));
    const owners = new Map([...live].map(([r, epoch]) => [epoch, r]));
    const replicas = this.#replicas.map(({ client }, r) => {
      const [held] = believed(client, this.#now, ALL_RULES);
      return `${live.has(r) ? 1 : 0}:${held === undefined ? NOBODY : tickets.get(held.seq)}`;
    });
    const queue = (record.queues.get(KEY) ?? []).map(({ era, fence, owner, seq }) => {
      const isGranted = fence !== 0 && era === record.era;
      return `${tickets.get(seq)}:${owners.get(owner) ?? NOBODY}:${isGranted ? 1 : 0}`;
    });
    const isQuarantined = record.quarantineMs !== 0;
    return { replicas: replicas.join(' '), queue: queue.join(' '), isQuarantined };
  }

  /** Whether whoever is at the head is alive, and knows that it holds the key. */
  isHeadServed(): boolean {
    const [head] = this.#store.snapshot().record.queues.get(KEY) ?? [];
    if (head === undefined) return true;
    const owner = this.#replicas.find(({ client }) => client.phase === 'in' && client.epoch === head.owner);
    return owner !== undefined && believed(owner.client, this.#now, ALL_RULES).some(({ seq }) => seq === head.seq);
  }

  /** The epochs that the store counts as alive, by replica: the one that each was given last. */
  #live(): Map<number, number> {
    const { live } = this.#store.snapshot().record;
    const found = new Map<number, number>();
    for (const row of live.values()) found.set(Number(row.instance.slice(1)), row.epoch);
    return found;
  }

  /** What may never be, whoever made the trace. */
  #judge(what: string, who: number, before: Map<number, number>): void {
    const live = this.#live();
    for (const [r, epoch] of before) {
      const { client } = this.#at(r);
      const isTrusting = client.phase === 'in' && client.epoch === epoch && isTrusted(client, this.#now, ALL_RULES);
      const isForced = what === 'WIPE' || (what === 'LEAVE' && who === r);
      if (!live.has(r) && isTrusting && !isForced) this.wrong ??= `replica ${r} died while it trusted`;
    }
    const holders = this.#replicas.flatMap(({ client }, r) =>
      believed(client, this.#now, ALL_RULES).map(({ fence }) => ({ r, fence })),
    );
    if (holders.length > 1) this.wrong ??= `held more than once: ${JSON.stringify(holders)}`;
    for (const { fence } of holders) {
      if (fence < this.#topFence) this.wrong ??= `fence ${fence} after ${this.#topFence}`;
      this.#topFence = Math.max(this.#topFence, fence);
    }
    const places = (this.#store.snapshot().record.queues.get(KEY) ?? []).map(({ seq }) => seq);
    if (new Set(places).size < places.length) this.wrong ??= 'a ticket has two places';
    if (places.length > this.#seqs.size) this.wrong ??= 'there are more places than reservations';
    if (places.some((seq) => this.#ended.has(seq))) this.wrong ??= 'what ended has a place again';
  }

  #at(r: number): Replica {
    const replica = this.#replicas[r];
    if (replica === undefined) throw new Error(`no replica ${r}`);
    return replica;
  }
}
