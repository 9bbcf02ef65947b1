import { randomUUID } from 'node:crypto';
import type { Coordinator, Leadership } from '@botmesh/core/spi';
import type { Lock } from 'chat';
import type { Kept } from './Kept.js';

interface Held {
  readonly leadership: Leadership;
  readonly force: number;
  timer: NodeJS.Timeout;
}

/**
 * The SDK's locks. Each is a leadership, so it ends with its replica, within the lease, and never while its replica is
 * sure of it; and it ends when its time to live is over without `extend`.
 */
export class Locks {
  readonly #coordinator: Coordinator;
  readonly #kept: Kept;
  readonly #held = new Map<string, Held>();

  constructor(coordinator: Coordinator, kept: Kept) {
    this.#coordinator = coordinator;
    this.#kept = kept;
  }

  /** Null when somebody holds it, or while nothing may be granted. */
  async acquire(threadId: string, ttlMs: number): Promise<Lock | null> {
    let force = 0;
    for (;;) {
      const leadership = await this.#coordinator.tryLead(nameOf(threadId, force));
      if (leadership === null) {
        // It may have been forced away from whoever leads: then it has another name by now.
        const newest = await this.#forced(threadId);
        if (newest === force) return null;
        force = newest;
        continue;
      }
      // Only after it is led: a force from here on is meant for this lock.
      const newest = await this.#forced(threadId);
      if (newest === force) return this.#hold(threadId, force, leadership, ttlMs);
      await leadership.resign();
      force = newest;
    }
  }

  /** Whether it is still surely held under this token, and for `ttlMs` more. */
  async extend({ threadId, token }: Lock, ttlMs: number): Promise<boolean> {
    const held = this.#held.get(token);
    if (held === undefined) return false;
    if ((await this.#forced(threadId)) !== held.force) {
      await this.#letGo(token);
      return false;
    }
    // After the look: the lease may have run out meanwhile, and a timer may have let it go.
    if (!this.#held.has(token) || !isHeld(held.leadership)) return false;
    clearTimeout(held.timer);
    held.timer = this.#expiry(token, ttlMs);
    return true;
  }

  async release({ token }: Lock): Promise<void> {
    await this.#letGo(token);
  }

  /** Frees it, whoever holds it: from here on that one's `extend` answers false. */
  async force(threadId: string): Promise<void> {
    const add = (found: unknown) => {
      const value = (typeof found === 'number' ? found : 0) + 1;
      return { keep: { value }, answer: undefined };
    };
    await this.#kept.change(forceKey(threadId), add);
  }

  async releaseAll(): Promise<void> {
    await Promise.all([...this.#held.keys()].map((token) => this.#letGo(token)));
  }

  #hold(threadId: string, force: number, leadership: Leadership, ttlMs: number): Lock {
    const token = randomUUID();
    this.#held.set(token, { leadership, force, timer: this.#expiry(token, ttlMs) });
    leadership.signal.addEventListener('abort', () => void this.#letGo(token), { once: true });
    return { threadId, token, expiresAt: Date.now() + ttlMs };
  }

  #expiry(token: string, ttlMs: number): NodeJS.Timeout {
    return setTimeout(() => void this.#letGo(token), ttlMs).unref();
  }

  async #letGo(token: string): Promise<void> {
    const held = this.#held.get(token);
    if (held === undefined) return;
    this.#held.delete(token);
    clearTimeout(held.timer);
    await held.leadership.resign();
  }

  async #forced(threadId: string): Promise<number> {
    const found = await this.#kept.read(forceKey(threadId));
    return typeof found === 'number' ? found : 0;
  }
}

function isHeld(leadership: Leadership): boolean {
  try {
    leadership.assertHeld();
    return true;
  } catch {
    return false;
  }
}

const forceKey = (threadId: string): string => `lock-force:${threadId}`;
const nameOf = (threadId: string, force: number): string => `chat-sdk lock ${force} ${threadId}`;
