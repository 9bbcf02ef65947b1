import { ConfigError, type Coordinator, checkOptionNames, LifecycleError, type StateStore } from '@botmesh/core/spi';
import type { Lock, QueueEntry, StateAdapter } from 'chat';
import { currentTurn } from './current.js';
import { Kept, toPlain } from './Kept.js';
import { Locks } from './Locks.js';

export interface MeshStateOptions {
  /** How this replica agrees with the others. It is started with the SDK, and stopped with it, if nothing else did. */
  coordinator: Coordinator;
  /** Where state is kept, shared by all replicas: a `RedisStateStore`, for example. */
  store: StateStore;
  /**
   * Where all but subscriptions and marks is kept. Stores forget nothing by themselves, so give one here that does, such as
   * a `RedisStateStore` with a namespace of its own and a `ttlMs` above the SDK's longest, 30 days. Default: `store`.
   */
  passing?: StateStore;
}

const NAMES = { coordinator: true, store: true, passing: true } as const;

/**
 * State of the Chat SDK on botmesh: every change is one step for all replicas, and what a turn writes that is not surely
 * held any more is refused with LeaseLostError. Used by `meshChat`, the marks by which the SDK knows what it has seen last only
 * if the message was handled to its end.
 *
 * A lock is a leadership: it ends with its replica, within the lease, and when its time to live is over. It belongs to the
 * replica that took it: `extendLock` elsewhere answers false.
 */
export class MeshState implements StateAdapter {
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly #lasting: Kept;
  readonly #kept: Kept;
  readonly #locks: Locks;
  /** Who starts and stops the coordinator: `meshChat`, once it was called. */
  #isBound = false;
  #isConnected = false;

  /** @throws ConfigError naming the option that cannot work */
  constructor(options: MeshStateOptions) {
    checkOptionNames('MeshState', options, NAMES);
    const { coordinator, store, passing = store } = options;
    checkPart('coordinator', coordinator, ['reserve', 'acquireTurn', 'tryLead'], 'a coordinator');
    checkPart('store', store, ['load', 'save'], 'a state store');
    checkPart('passing', passing, ['load', 'save'], 'a state store');
    this.coordinator = coordinator;
    this.store = store;
    this.#lasting = new Kept(coordinator, store);
    this.#kept = new Kept(coordinator, passing);
    this.#locks = new Locks(coordinator, this.#lasting);
  }

  /** For `meshChat`: from here on the coordinator is not this object's to start and stop. False when it was so before. */
  bind(): boolean {
    if (this.#isBound) return false;
    this.#isBound = true;
    return true;
  }

  async connect(): Promise<void> {
    if (!this.#isBound) await this.coordinator.start();
    this.#isConnected = true;
  }

  async disconnect(): Promise<void> {
    if (!this.#isConnected) return;
    this.#isConnected = false;
    await this.#locks.releaseAll();
    if (!this.#isBound) await this.coordinator.stop();
  }

  async acquireLock(threadId: string, ttlMs: number): Promise<Lock | null> {
    this.#mayWrite();
    return this.#locks.acquire(threadId, ttlMs);
  }

  async extendLock(lock: Lock, ttlMs: number): Promise<boolean> {
    this.#mayWrite();
    return this.#locks.extend(lock, ttlMs);
  }

  /** Also of a turn that is lost: what it took is let go. */
  async releaseLock(lock: Lock): Promise<void> {
    await this.#locks.release(lock);
  }

  async forceReleaseLock(threadId: string): Promise<void> {
    this.#mayWrite();
    await this.#locks.force(threadId);
  }

  async get<T = unknown>(key: string): Promise<T | null> {
    this.#mayRead();
    return ((await this.#kept.read(`value:${key}`)) as T | undefined) ?? null;
  }

  async set<T = unknown>(key: string, value: T, ttlMs?: number): Promise<void> {
    this.#mayWrite();
    const keep = { value: toPlain(key, value), ttlMs };
    await this.#kept.change(`value:${key}`, () => ({ keep, answer: undefined }));
  }

  async setIfNotExists(key: string, value: unknown, ttlMs?: number): Promise<boolean> {
    this.#mayWrite();
    const turn = currentTurn();
    if (turn?.isMark(key)) return turn.mark(key, ttlMs);
    const plain = toPlain(key, value);
    return this.#kept.change(`value:${key}`, (found) =>
      found === undefined ? { keep: { value: plain, ttlMs }, answer: true } : { answer: false },
    );
  }

  async delete(key: string): Promise<void> {
    await this.#forget(this.#kept, `value:${key}`);
  }

  async appendToList(key: string, value: unknown, options: { maxLength?: number; ttlMs?: number } = {}): Promise<void> {
    this.#mayWrite();
    const { maxLength = Number.POSITIVE_INFINITY, ttlMs } = options;
    const plain = toPlain(key, value);
    const isAgain = (currentTurn()?.attempt ?? 1) > 1;
    const json = JSON.stringify(plain);
    await this.#kept.change(`list:${key}`, (found) => {
      const list = listOf(found);
      // An earlier attempt at this message has put it there.
      if (isAgain && list.some((each) => JSON.stringify(each) === json)) return { answer: undefined };
      return { keep: { value: newest([...list, plain], maxLength), ttlMs }, answer: undefined };
    });
  }

  async getList<T = unknown>(key: string): Promise<T[]> {
    this.#mayRead();
    return listOf(await this.#kept.read(`list:${key}`)) as T[];
  }

  async enqueue(threadId: string, entry: QueueEntry, maxSize: number): Promise<number> {
    this.#mayWrite();
    const plain = toPlain('queue', entry);
    return this.#kept.change(`queue:${threadId}`, (found) => {
      const value = newest([...listOf(found), plain], maxSize);
      return { keep: { value }, answer: value.length };
    });
  }

  async dequeue(threadId: string): Promise<QueueEntry | null> {
    this.#mayWrite();
    const name = `queue:${threadId}`;
    // Mostly there is none: then nobody's turn is needed.
    if (listOf(await this.#kept.read(name)).length === 0) return null;
    return this.#kept.change(name, (found) => {
      const [first, ...rest] = listOf(found);
      if (first === undefined) return { answer: null };
      return { keep: { value: rest.length > 0 ? rest : undefined }, answer: first as QueueEntry };
    });
  }

  async queueDepth(threadId: string): Promise<number> {
    this.#mayRead();
    return listOf(await this.#kept.read(`queue:${threadId}`)).length;
  }

  async subscribe(threadId: string): Promise<void> {
    this.#mayWrite();
    await this.#lasting.change(`subscribed:${threadId}`, () => ({ keep: { value: true }, answer: undefined }));
  }

  async unsubscribe(threadId: string): Promise<void> {
    await this.#forget(this.#lasting, `subscribed:${threadId}`);
  }

  async isSubscribed(threadId: string): Promise<boolean> {
    this.#mayRead();
    return (await this.#lasting.read(`subscribed:${threadId}`)) === true;
  }

  async #forget(kept: Kept, name: string): Promise<void> {
    this.#mayWrite();
    // What is not there needs nobody's turn, and leaves nothing behind.
    if ((await kept.read(name)) === undefined) return;
    await kept.change(name, () => ({ keep: { value: undefined }, answer: undefined }));
  }

  #mayWrite(): void {
    this.#mayRead();
    currentTurn()?.assertHeld();
  }

  #mayRead(): void {
    if (this.#isConnected) return;
    throw new LifecycleError('not-started', 'MeshState: not connected. Let the SDK do it, or call connect() first.');
  }
}

function listOf(found: unknown): unknown[] {
  return Array.isArray(found) ? found : [];
}

function newest(list: unknown[], count: number): unknown[] {
  return list.length > count ? list.slice(list.length - count) : list;
}

function checkPart(name: string, part: unknown, methods: readonly string[], what: string): void {
  const missing = methods.find((method) => typeof (part as Record<string, unknown> | null)?.[method] !== 'function');
  if (missing === undefined) return;
  const found = part === null ? 'null' : typeof part;
  throw new ConfigError(
    `MeshState: ${name} is ${found}, without ${missing}(). Pass { ${name} }, ${what} made with new.`,
  );
}
