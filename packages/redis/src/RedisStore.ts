import { randomUUID } from 'node:crypto';
import type {
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  JoinAnswer,
  JoinRequest,
  LeaveRequest,
  PaceAnswer,
  PaceRequest,
  Push,
  Store,
  StoreView,
  Waiting,
  WaitingRequest,
} from '@botmesh/core/spi';
import { Reader, readApply, readBeat, readJoin, readPush } from './answers.js';
import { view } from './inspect.js';
import { tagOf } from './namespace.js';
import { type Args, applyArgs, beatArgs, joinArgs, leaveArgs } from './requests.js';
import type { SharedConnection } from './SharedConnection.js';
import { StepCalls } from './StepCalls.js';
import { keysOf, paceScript, stepScript, viewScript } from './script/scripts.js';
import { toWire } from './text.js';

export interface RedisStoreOptions {
  /** Several stores may share it. */
  readonly connection: SharedConnection;
  readonly namespace: string;
  readonly shard: number;
}

/** The protocol's steps on one Redis or Valkey, for one shard: each is one call of a script. */
export class RedisStore implements Store {
  readonly #connection: SharedConnection;
  /** All keys of the shard have it, so they are in one slot of a Cluster. */
  readonly #tag: string;
  readonly #keys: readonly string[];
  readonly #calls: StepCalls;

  constructor({ connection, namespace, shard }: RedisStoreOptions) {
    this.#connection = connection;
    this.#tag = tagOf(namespace, shard);
    this.#keys = keysOf(this.#tag);
    this.#calls = new StepCalls({
      script: stepScript(this.#tag),
      keys: this.#keys,
      makeRun: randomUUID,
      warn: (message) => process.emitWarning(message, { type: 'BotmeshWarning', code: 'redis-info' }),
    });
  }

  async join(request: JoinRequest): Promise<JoinAnswer> {
    return readJoin(await this.#step('join', joinArgs(request)));
  }

  async apply(request: ApplyRequest): Promise<ApplyAnswer> {
    return readApply(await this.#step('apply', applyArgs(request)), request.ops);
  }

  async beat(request: BeatRequest): Promise<BeatAnswer> {
    return readBeat(await this.#step('beat', beatArgs(request)), request);
  }

  async leave(request: LeaveRequest): Promise<void> {
    await this.#step('leave', leaveArgs(request));
  }

  async waiting({ key, limit, seq }: WaitingRequest): Promise<readonly Waiting[]> {
    const reader = new Reader(await this.#view('waiting', toWire(key), seq, Math.min(limit, 256)));
    const found: Waiting[] = [];
    while (!reader.isAtEnd) {
      const [at = 0, attempt = 0, hasId] = reader.numbers();
      const id = reader.text();
      found.push({ seq: at, id: hasId === 1 ? id : null, body: reader.text(), attempt });
    }
    return found;
  }

  async pace({ burstMs, costMs, name, pauseMs }: PaceRequest): Promise<PaceAnswer> {
    const connection = await this.#connection.get(this);
    const keys = [`${this.#tag}:paces`];
    return { waitMs: Number(await connection.evalsha(paceScript, keys, [toWire(name), costMs, burstMs, pauseMs])) };
  }

  async subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    const connection = await this.#connection.get(this);
    return connection.subscribe(`${this.#tag}:push:${toWire(instance)}`, (message) => {
      const push = readPush(message);
      if (push !== undefined) listener(push);
    });
  }

  inspect(): Promise<StoreView> {
    return view((part, cursor) => this.#view(part, cursor));
  }

  close(): Promise<void> {
    return this.#connection.release(this);
  }

  async #step(name: string, args: Args): Promise<unknown> {
    const connection = await this.#connection.get(this);
    return this.#calls.call(connection, name, [`${this.#tag}:push:`, ...args]);
  }

  async #view(...args: Args): Promise<unknown> {
    const connection = await this.#connection.get(this);
    return connection.evalsha(viewScript, this.#keys, ['view', '!', ...args]);
  }
}
