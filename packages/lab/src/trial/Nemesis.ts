import { seededRandom } from '@botmesh/core/testing';
import type { Site, Way } from '../backends/backend.js';
import type { Fleet, Replica } from '../fleet/Fleet.js';
import { nowMs } from '../now.js';
import type { Way as Cut } from '../TestProxy.js';
import { pause } from '../until.js';

/** One fault, as it came about. */
export interface Struck {
  readonly kind: string;
  /** When it began, by the common clock. */
  readonly at: number;
  /** When all that it broke was mended. */
  readonly until: number;
  /** Whom it struck; the servers otherwise. */
  readonly replica?: string;
}

interface ReplicaFault {
  readonly kind: string;
  readonly needsNetwork?: boolean;
  readonly strike: (victim: Replica, spanMs: number, random: () => number) => Promise<void>;
}

export interface NemesisOptions {
  readonly seed: number;
  readonly leaseMs: number;
  readonly site: Site;
  readonly fleet: Fleet;
}

/** The number of the loop that harms servers: less often, since after some of its faults nothing goes on for a while. */
const SITE = 3;

/** Harms replicas, the ways to the servers, and the servers, by chance, and mends again all that can be mended. */
export class Nemesis {
  readonly struck: Struck[] = [];
  readonly #options: NemesisOptions;
  readonly #ways = new Map<Replica, Way>();
  /** Two faults at one replica at once could not both be mended. */
  readonly #victims = new Set<Replica>();
  #over = new AbortController();

  constructor(options: NemesisOptions) {
    this.#options = options;
  }

  /** Starts one more replica, with a way of its own. */
  async join(): Promise<void> {
    const { fleet, site } = this.#options;
    const way = await site.way();
    try {
      this.#ways.set(await fleet.start(way.connect), way);
    } catch (error) {
      await close(way);
      throw error;
    }
  }

  /** Resolves when the time is over, or `end` was called, and everything is mended. */
  async harm(durationMs: number): Promise<void> {
    this.#over = new AbortController();
    const timer = setTimeout(() => this.end(), durationMs);
    const loops = [1, 2].map((n) => this.#loop(n, (random) => this.#harmReplica(random)));
    if (this.#options.site.faults.length > 0) loops.push(this.#loop(SITE, (random) => this.#harmSite(random)));
    // Each of them ends what it is at, also when another one failed.
    const failed = (await Promise.allSettled(loops)).find(({ status }) => status === 'rejected');
    clearTimeout(timer);
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason;
  }

  end(): void {
    this.#over.abort();
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Closes the ways of the replicas. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#ways.values()].map(close));
  }

  async #loop(n: number, harm: (random: () => number) => Promise<void>): Promise<void> {
    const { leaseMs, seed } = this.#options;
    const random = seededRandom(seed * 7919 + n);
    try {
      while (!this.#over.signal.aborted) {
        await pause(random() * leaseMs * (n === SITE ? 2.5 : 0.5));
        if (!this.#over.signal.aborted) await harm(random);
      }
    } finally {
      this.end();
    }
  }

  async #harmReplica(random: () => number): Promise<void> {
    const { fleet, leaseMs } = this.#options;
    const { replicas } = fleet;
    // Mostly whoever holds a chat now: what happens to the others seldom matters.
    const holder = random() < 0.6 ? fleet.holder() : undefined;
    const victim = holder ?? replicas[Math.floor(random() * replicas.length)];
    const drawn = [random(), random()] as const;
    if (victim === undefined || this.#victims.has(victim)) return;
    const hasNetwork = (this.#ways.get(victim)?.proxies.length ?? 0) > 0;
    const faults = this.#faults.filter(({ needsNetwork }) => hasNetwork || needsNetwork !== true);
    const { kind, strike } = faults[Math.floor(drawn[0] * faults.length)]!;
    this.#victims.add(victim);
    await this.#tell(kind, () => strike(victim, spanMs(leaseMs, drawn[1]), random), victim.name);
    this.#victims.delete(victim);
  }

  async #harmSite(random: () => number): Promise<void> {
    const { fleet, leaseMs, site } = this.#options;
    const { kind, strike } = site.faults[Math.floor(random() * site.faults.length)]!;
    const how = {
      random,
      spanMs: spanMs(leaseMs, random()),
      lostData: (keptUntil: number) => fleet.lostData(keptUntil),
    };
    await this.#tell(kind, () => strike(how));
  }

  async #tell(kind: string, strike: () => Promise<void>, replica?: string): Promise<void> {
    const at = nowMs();
    try {
      await strike();
    } finally {
      this.struck.push({ kind, at, until: nowMs(), ...(replica === undefined ? {} : { replica }) });
    }
  }

  readonly #faults: readonly ReplicaFault[] = [
    { kind: 'killed', strike: (victim) => this.#replace(victim, () => this.#options.fleet.kill(victim)) },
    { kind: 'killed', strike: (victim) => this.#replace(victim, () => this.#options.fleet.kill(victim)) },
    { kind: 'stopped', strike: (victim) => this.#replace(victim, () => this.#options.fleet.stop(victim)) },
    { kind: 'frozen', strike: (victim, ms) => this.#options.fleet.freezeFor(victim, ms) },
    { kind: 'frozen', strike: (victim, ms) => this.#options.fleet.freezeFor(victim, ms) },
    { kind: 'cut', needsNetwork: true, strike: (victim, ms) => this.#cut(victim, 'cut', ms) },
    { kind: 'cut up', needsNetwork: true, strike: (victim, ms) => this.#cut(victim, 'cut-up', ms) },
    { kind: 'cut down', needsNetwork: true, strike: (victim, ms) => this.#cut(victim, 'cut-down', ms) },
    {
      kind: 'reset',
      needsNetwork: true,
      strike: async (victim) => {
        for (const proxy of this.#ways.get(victim)!.proxies) proxy.reset();
      },
    },
    {
      kind: 'slow',
      needsNetwork: true,
      strike: async (victim, ms, random) => {
        const { proxies } = this.#ways.get(victim)!;
        const delayMs = random() * 300;
        for (const proxy of proxies) proxy.delay(delayMs);
        await pause(ms);
        for (const proxy of proxies) proxy.delay(0);
      },
    },
  ];

  async #replace(victim: Replica, end: () => Promise<void>): Promise<void> {
    await end();
    const way = this.#ways.get(victim);
    this.#ways.delete(victim);
    if (way !== undefined) await close(way);
    await this.join();
  }

  async #cut(victim: Replica, how: Cut, ms: number): Promise<void> {
    const { proxies } = this.#ways.get(victim)!;
    for (const proxy of proxies) proxy.set(how);
    await pause(ms);
    for (const proxy of proxies) proxy.set('open');
  }
}

/** Less or more than a lease. */
function spanMs(leaseMs: number, drawn: number): number {
  return 100 + drawn * 1.6 * leaseMs;
}

async function close(way: Way): Promise<void> {
  await Promise.all(way.proxies.map((proxy) => proxy[Symbol.asyncDispose]()));
}
