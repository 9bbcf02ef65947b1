import { seededRandom } from '@botmesh/core/testing';
import type { Backend } from '../cluster/backends.js';
import { Cluster, pause, type Replica } from '../cluster/Cluster.js';
import { judge, type Verdict } from './verdict.js';

export interface SoakOptions {
  readonly backend: Backend;
  readonly seed: number;
  readonly durationMs: number;
  readonly chats?: number;
  readonly leaseMs?: number;
  /** For the control: see `ClusterOptions`. */
  readonly isApart?: boolean;
}

export interface Soaked extends Verdict {
  readonly kills: number;
  readonly freezes: number;
  readonly restarts: number;
  /** Where the diary of a run with faults is kept. */
  readonly keptAt?: string;
}

const REPLICAS = 3;
const PER_CHAT_MS = 2_000;
const LONGEST_TURN_MS = 60;
const QUIET_MS = { min: 400, max: 2_500 };
/** What is left when nobody harms the mesh any more is handled within this time, on the slowest machine. */
const REST_MS = 120_000;

/**
 * Three processes of one bot, written to by many chats, while one after the other is killed, frozen or replaced. All that
 * was taken in must come to its end, in the order of its chat.
 */
export async function soak(options: SoakOptions): Promise<Soaked> {
  const { backend, seed, durationMs, chats = 200, leaseMs = 3_000, isApart = false } = options;
  const random = seededRandom(seed);
  const untilMs = Date.now() + durationMs;
  await using cluster = await Cluster.open(backend, { leaseMs, drainMs: leaseMs, isApart });
  await cluster.launchMany(REPLICAS);
  const writers = Array.from({ length: chats }, (_, n) => {
    return write(cluster, `chat ${n}`, seededRandom(seed * 10_007 + n), untilMs);
  });
  const harm = new Harm(cluster, random);
  try {
    // What a process took in alone ends with it.
    if (!isApart) await harm.until(untilMs);
    const taken = new Map(await Promise.all(writers));
    await allHandled(cluster, taken);
    await Promise.all(cluster.living.map((replica) => replica.end()));
    const { kills, freezes, restarts } = harm;
    const verdict = { ...judge(cluster.diary.read(), taken), kills, freezes, restarts };
    return verdict.faults.length === 0 ? verdict : { ...verdict, keptAt: cluster.keep() };
  } catch (error) {
    throw new Error(`Seed ${seed} on ${backend.name}: the diary is at ${cluster.keep()}`, { cause: error });
  }
}

/** Writes to one chat, each message when the one before it was taken in. */
async function write(cluster: Cluster, chat: string, random: () => number, untilMs: number): Promise<[string, number]> {
  let count = 0;
  for (await pause(random() * PER_CHAT_MS); Date.now() < untilMs; await pause(random() * 2 * PER_CHAT_MS)) {
    count += 1;
    // Now and then several at once: they wait for each other.
    const burst = random() < 0.1 ? 3 : 1;
    for (let n = 1; n < burst; n++, count++) {
      await cluster.deliver({ chat, id: `${count}`, raw: { ms: random() * LONGEST_TURN_MS } });
    }
    await cluster.deliver({ chat, id: `${count}`, raw: { ms: random() * LONGEST_TURN_MS } });
  }
  return [chat, count];
}

async function allHandled(cluster: Cluster, taken: ReadonlyMap<string, number>): Promise<void> {
  let read = 0;
  const left = new Map([...taken].filter(([, count]) => count > 0));
  await cluster.until(
    'every message was answered',
    (lines) => {
      for (; read < lines.length; read++) {
        const { event, chat = '', id } = lines[read]!;
        // The last of a chat is answered after all others.
        if (event === 'ended' && id === `${left.get(chat)}`) left.delete(chat);
      }
      return left.size === 0;
    },
    REST_MS,
  );
}

/** Does one harm after the other, as chance decides, and leaves as many replicas as there were. */
class Harm {
  kills = 0;
  freezes = 0;
  restarts = 0;
  readonly #cluster: Cluster;
  readonly #random: () => number;

  constructor(cluster: Cluster, random: () => number) {
    this.#cluster = cluster;
    this.#random = random;
  }

  async until(endMs: number): Promise<void> {
    for (;;) {
      await pause(this.#between(QUIET_MS.min, QUIET_MS.max));
      if (Date.now() >= endMs) return;
      const { living } = this.#cluster;
      const victim = living[Math.floor(this.#random() * living.length)]!;
      const kind = this.#random();
      if (kind < 0.4) await this.#kill(victim);
      else if (kind < 0.7) await this.#freeze(victim);
      else await this.#restart(victim);
    }
  }

  async #kill(victim: Replica): Promise<void> {
    this.kills += 1;
    await victim.kill();
    await this.#cluster.launch();
  }

  /** For less or more than a lease. */
  async #freeze(victim: Replica): Promise<void> {
    this.freezes += 1;
    victim.freeze();
    await pause(this.#between(0.2, 1.8) * this.#cluster.leaseMs);
    victim.thaw();
  }

  async #restart(old: Replica): Promise<void> {
    this.restarts += 1;
    await this.#cluster.launch();
    await old.end();
  }

  #between(least: number, most: number): number {
    return least + this.#random() * (most - least);
  }
}
