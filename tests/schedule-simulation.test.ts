// Schedules under every fault, on a virtual clock: each due time is run, at most twice, and never beside another run.
import { Bot, type Job, MemoryStateStore } from '@botmesh/core';
import { FakeProvider, MemoryCoordinator, MemoryMesh, seededRandom, VirtualClock } from '@botmesh/core/testing';
import { expect, test } from 'vitest';

const REPLICAS = 3;
const LEASE_MS = 3_000;
const EVERY_MS = 2_000;
const HARM_MS = 80_000;

interface Replica {
  readonly bot: Bot;
  readonly coordinator: MemoryCoordinator;
  /** Stands still for its whole process while it is frozen, and for ever once it crashed. */
  readonly isGone: () => boolean;
}

interface Run {
  readonly dueMs: number;
  readonly attempt: number;
  readonly term: number;
  readonly job: Job;
  readonly by: Replica;
  isOver: boolean;
}

class Simulation {
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly runs: Run[] = [];
  readonly log: string[] = [];
  readonly overlaps: string[] = [];
  readonly #store = new MemoryStateStore();
  readonly #random: () => number;
  readonly #replicas: Replica[] = [];

  constructor(seed: number) {
    this.clock = new VirtualClock({ seed });
    this.mesh = new MemoryMesh({ clock: this.clock, seed });
    this.#random = seededRandom(seed);
  }

  async play(): Promise<void> {
    for (let n = 0; n < REPLICAS; n++) this.#replicas.push(await this.#launch());
    const untilMs = this.clock.monotonicMs() + HARM_MS;
    while (this.clock.monotonicMs() < untilMs) await this.#harm();
    await this.clock.sleep(10 * LEASE_MS);
    for (const { bot } of this.#replicas) await bot.stop({ drainMs: 10_000 });
  }

  async #launch(): Promise<Replica> {
    const coordinator = new MemoryCoordinator({ mesh: this.mesh, leaseMs: LEASE_MS });
    const { clock } = this.mesh.rigOf(coordinator);
    const log = (line: string) => this.log.push(line);
    const bot = new Bot({
      provider: new FakeProvider(),
      coordinator,
      clock,
      state: this.#store,
      log,
      onError: () => {},
    });
    const replica = { bot, coordinator, isGone: () => clock.isKilled || clock.isFrozen };
    const sleep = (ms: number): Promise<void> =>
      new Promise((resolve) => {
        clock.setTimer(ms, resolve);
      });
    bot.schedule({ everyMs: EVERY_MS }, 'tick', (job) => this.#work(job, replica, sleep), { missed: 'all' });
    await bot.start();
    return replica;
  }

  async #work(job: Job, by: Replica, sleep: (ms: number) => Promise<void>): Promise<void> {
    const { dueMs, attempt, term } = job;
    for (const other of this.runs) {
      if (!other.isOver && !other.by.isGone() && isHeld(other.job)) this.overlaps.push(`${other.dueMs} and ${dueMs}`);
    }
    const run: Run = { dueMs, attempt, term, job, by, isOver: false };
    this.runs.push(run);
    await sleep(this.#random() * 1_500);
    // What a job does to others it does only while it may.
    if (!isHeld(job)) return;
    run.isOver = true;
    if (this.#random() < 0.1) throw new Error('by chance');
  }

  async #harm(): Promise<void> {
    await this.clock.sleep(this.#random() * 4_000);
    const at = Math.floor(this.#random() * REPLICAS);
    const { bot, coordinator } = this.#replicas[at]!;
    const kind = this.#random();
    if (kind < 0.25) {
      coordinator.crash();
      this.#replicas[at] = await this.#launch();
    } else if (kind < 0.5) {
      void bot.stop({ drainMs: this.#random() * 2_000 });
      this.#replicas[at] = await this.#launch();
    } else if (kind < 0.7) {
      this.mesh.cut(coordinator);
      await this.clock.sleep(this.#random() * 2 * LEASE_MS);
      this.mesh.heal(coordinator);
    } else if (kind < 0.9) {
      this.mesh.freeze(coordinator);
      await this.clock.sleep(this.#random() * 2 * LEASE_MS);
      this.mesh.thaw(coordinator, { first: this.#random() < 0.5 ? 'timers' : 'arrivals' });
    } else {
      this.mesh.loseAnswers(coordinator, { next: 3 });
    }
  }
}

function isHeld(job: Job): boolean {
  try {
    job.assertHeld();
    return true;
  } catch {
    return false;
  }
}

test.each([...Array(60).keys()])('each due time is run, at most twice, and alone: seed %i', async (seed) => {
  const simulation = new Simulation(seed);

  await simulation.clock.run(() => simulation.play());

  const { runs, log, overlaps } = simulation;
  const attempts = new Map<number, number[]>();
  for (const { dueMs, attempt } of runs) attempts.set(dueMs, [...(attempts.get(dueMs) ?? []), attempt]);
  const givenUp = log.filter((line) => line.includes('given up')).length;
  const ticks = [...attempts.keys()].map((dueMs) => dueMs / EVERY_MS);
  const expected = ticks.at(-1)! - ticks[0]! + 1;
  const terms = runs.map(({ term }) => term);

  expect(overlaps).toEqual([]);
  // A run that was recorded, and whose replica died before it began, is made the second time only.
  expect([...attempts.values()].filter((each) => !['1', '1,2', '2'].includes(each.join()))).toEqual([]);
  expect(runs.map(({ dueMs }) => dueMs)).toEqual(runs.map(({ dueMs }) => dueMs).toSorted((a, b) => a - b));
  expect(terms).toEqual(terms.toSorted((a, b) => a - b));
  expect(expected - ticks.length).toBeLessThanOrEqual(givenUp);
  expect(expected).toBeGreaterThan(35);
});
