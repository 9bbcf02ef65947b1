import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  type Clock,
  type Grant,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type PaceAnswer,
  type PaceRequest,
  type Push,
  type Store,
  type StoreView,
  systemClock,
  type Waiting,
  type WaitingRequest,
} from '@botmesh/core/spi';
import { keysIn, type Reply, readApply, readBeat, readJoin, readReply, readWaiting } from './answers.js';
import { keysOfView, readView, viewOf } from './inspect.js';
import { LongKeys } from './LongKeys.js';
import { Polling, type Sight } from './Polling.js';
import { Pushes } from './Pushes.js';
import { quoted } from './quoting.js';
import {
  type Args,
  applyArgs,
  beatArgs,
  isSingle,
  joinArgs,
  leaveArgs,
  numberList,
  singleArgs,
  textList,
} from './requests.js';
import type { SharedClient } from './SharedClient.js';
import { shortOf } from './text.js';

export interface PostgresStoreOptions {
  /** Several stores may share it. */
  readonly client: SharedClient;
  readonly schema: string;
  readonly namespace: string;
  readonly shard: number;
  /** Whether a step is answered only when it is on the server's disk; undefined leaves it to the server's settings. */
  readonly synchronousCommit?: boolean | undefined;
  /** How long a step may wait for its turn. */
  readonly lockMs: number;
  /** How often a replica that does not listen asks, while tickets of it wait. */
  readonly pollMs: number;
  /** By which it does. Default: the real one. */
  readonly clock?: Clock | undefined;
}

const SYNC = { true: 'on', false: 'off', undefined: '' } as const;

/** The protocol's steps on one PostgreSQL, for one shard: each is one call of a function, which is one transaction. */
export class PostgresStore implements Store {
  readonly #client: SharedClient;
  readonly #schema: string;
  /** What tells the shard, for every function; and what each step needs to know beside. */
  readonly #place: readonly string[];
  readonly #manner: readonly string[];
  readonly #texts = new Map<string, string>();
  /** What names of channels are made of, for steps that notify by themselves. */
  readonly #channels: string;
  readonly #pushes: Pushes;
  readonly #longKeys: LongKeys;
  readonly #pollMs: number;
  readonly #clock: Clock;
  /** Of replicas that do not listen, by instance. */
  readonly #polling = new Map<string, Polling>();
  readonly #epochs = new Map<string, number>();

  constructor({
    client,
    clock = systemClock,
    lockMs,
    namespace,
    pollMs,
    schema,
    shard,
    synchronousCommit,
  }: PostgresStoreOptions) {
    this.#client = client;
    this.#schema = quoted(schema);
    this.#place = [namespace, String(shard)];
    this.#manner = [...this.#place, SYNC[`${synchronousCommit}`], String(Math.ceil(lockMs))];
    const channels = JSON.stringify([schema, namespace, shard]);
    // All that notify commit one after another in the whole server: a step that waits for the disk has others do it.
    this.#channels = client.wakeUp === 'listen' && synchronousCommit === false ? channels : '';
    this.#pushes = new Pushes(channels);
    this.#longKeys = new LongKeys((name, ...args) => this.#call(name, [...this.#place, ...args]));
    this.#pollMs = pollMs;
    this.#clock = clock;
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    const reply = await this.#step('step_join', joinArgs(request));
    const answer = readJoin(reply, await this.#keyOf(reply));
    if (answer.kind === 'joined') {
      this.#epochs.set(request.instance, answer.epoch);
      this.#polling.get(request.instance)?.begin(answer.epoch);
    }
    return answer;
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    await this.#longKeys.note(request.ops);
    const reply = await (isSingle(request)
      ? this.#step('step_single', [this.#channels, ...singleArgs(request)])
      : this.#step('step_apply', [this.#channels, ...applyArgs(request)]));
    const answer = readApply(reply, await this.#keyOf(reply));
    this.#polling.get(request.instance)?.afterApply(request, answer);
    return answer;
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    const reply = await this.#step('step_beat', beatArgs(request));
    const answer = readBeat(reply, request, await this.#keyOf(reply));
    this.#polling.get(request.instance)?.afterBeat(request, answer);
    return answer;
  }

  async leave(request: LeaveRequest): Promise<void> {
    await this.#step('step_leave', leaveArgs(request));
    this.#polling.get(request.instance)?.end();
  }

  async waiting({ key, limit, seq }: WaitingRequest): Promise<readonly Waiting[]> {
    const most = String(Math.min(limit, 256));
    return readWaiting(await this.#call('see_waiting', [...this.#place, shortOf(key), String(seq), most]));
  }

  async pace({ burstMs, costMs, name, pauseMs }: PaceRequest): Promise<PaceAnswer> {
    const numbers = [costMs, burstMs, pauseMs].map(String);
    return { waitMs: Number(await this.#call('pace', [...this.#manner, shortOf(name), ...numbers])) };
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    const client = await this.#client.get(this);
    const off = await this.#pushes.listen(client, instance, listener, () => {
      listener({ kind: 'look', epoch: this.#epochs.get(instance) ?? 0 });
    });
    if (client.wakeUp === 'poll') this.#poll(instance, listener);
    return async () => {
      this.#polling.get(instance)?.end();
      this.#polling.delete(instance);
      await off();
    };
  }

  async inspect(): Promise<StoreView> {
    const raw = readView(await this.#call('inspect', [...this.#place]));
    return viewOf(raw, await this.#longKeys.reader(keysOfView(raw)));
  }

  async close(): Promise<void> {
    for (const polling of this.#polling.values()) polling.end();
    await this.#pushes.sent();
    await this.#client.release(this);
  }

  /** When all pushes of the steps so far are on their way. For tests. */
  sent(): Promise<void> {
    return this.#pushes.sent();
  }

  #poll(instance: string, tell: (push: Push) => void): void {
    const polling = new Polling({
      clock: this.#clock,
      everyMs: this.#pollMs,
      look: (epoch, tickets) => this.#look(epoch, tickets),
      tell,
    });
    polling.begin(this.#epochs.get(instance) ?? 0);
    this.#polling.get(instance)?.end();
    this.#polling.set(instance, polling);
  }

  async #look(epoch: number, tickets: readonly { key: string; seq: number }[]): Promise<Sight | undefined> {
    const keys = new Map(tickets.map(({ key, seq }) => [seq, key]));
    const lists = [textList(tickets.map(({ key }) => shortOf(key))), numberList([...keys.keys()])];
    const text = await this.#call('see_granted', [...this.#place, String(epoch), ...lists]);
    if (text === null) return undefined;
    const [era, found, more] = JSON.parse(text) as [number, [string, number, number][], number];
    const grants = found.map(([, seq, fence]): Grant => ({ key: keys.get(seq) ?? '', seq, fence }));
    return { era, grants, hasMore: more === 1 };
  }

  async #step(name: string, args: Args): Promise<Reply> {
    const client = await this.#client.get(this);
    const reply = readReply(
      await client.call(this.#text(name, this.#manner.length + args.length), [...this.#manner, ...args]),
    );
    if (reply.pushes.length > 0) this.#pushes.send(client, reply.pushes);
    return reply;
  }

  async #call(name: string, args: Args): Promise<string | null> {
    const client = await this.#client.get(this);
    return client.call(this.#text(name, args.length), args);
  }

  #text(name: string, count: number): string {
    const known = this.#texts.get(name);
    if (known !== undefined) return known;
    const places = Array.from({ length: count }, (_, at) => `$${at + 1}`);
    const text = `select ${this.#schema}.${name}(${places.join(', ')})`;
    this.#texts.set(name, text);
    return text;
  }

  #keyOf(reply: Reply): Promise<(short: string) => string> | ((short: string) => string) {
    return reply.news === '' && reply.notes === '' ? NEVER_ASKED : this.#longKeys.reader(keysIn(reply));
  }
}

const NEVER_ASKED = (short: string): string => short;
