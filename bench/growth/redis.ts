// What grows across processes: W2 by the number of processes, and a heartbeat's share of the server by that of replicas.
import { setTimeout as sleep } from 'node:timers/promises';
import { RedisCoordinator } from '@botmesh/redis';
import { Redis } from 'ioredis';
import { spread } from '../lib/stats.js';
import { backend } from '../processes/drivers/redis.js';
import { FIGURES, turnsOf } from '../processes/figures.js';
import type { Load } from '../processes/loads.js';
import { type Run, run } from '../processes/run.js';
import { violationsOf } from '../processes/violations.js';
import type { Effort } from './effort.js';
import { type About, drawn, type Line, type Plot } from './plot.js';
import { LEASE_MS } from './still.js';

/** Rounds of processes take seconds each. */
const MOST_ROUNDS = 3;
/** So many replicas start at once. */
const TOGETHER = 25;
/** Fewer heartbeats say nothing. */
const FEWEST_CALLS = 4;

/** Two plots of the same runs: turns a second, and what they cost. */
export async function processesOnRedis(rate: About, cpu: About, effort: Effort): Promise<Plot[]> {
  const startedMs = performance.now();
  const { processes: counts, runMs } = effort;
  const rounds = Math.min(effort.rounds, MOST_ROUNDS);
  const subject = backend.subjects.find(({ isOurs }) => isOurs)!;
  const runs: Run[][] = counts.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < counts.length; turn++) {
      const at = (turn + round) % counts.length;
      const load: Load = {
        ...{ kind: 'closed', name: 'W2', title: '10,000 chats, empty handler', processes: counts[at]! },
        ...{ chats: 10_000, outstanding: 32, handlerMs: 0 },
      };
      runs[at]!.push(await run(backend, subject, load, { runMs, warmMs: runMs }));
    }
  }
  const violations = runs.flat().reduce((sum, each) => sum + wrongIn(each), 0);
  const line = (name: string, figure: (each: Run) => number): Line => ({
    name,
    points: counts.map((x, at) => ({ x, ...spread(runs[at]!.map(figure)) })),
  });
  const lines = {
    rate: [line('all processes together', FIGURES.rate.of)],
    // Milliseconds of 1,000 turns are microseconds of one.
    cpu: [line('of the processes, without the server', FIGURES.cpu.of)],
  };
  return [
    drawn(rate, { startedMs, rounds, lines: lines.rate, violations }),
    drawn(cpu, { startedMs, rounds, lines: lines.cpu, violations }),
  ];
}

function wrongIn(each: Run): number {
  const submitted = each.outcomes.reduce((sum, outcome) => sum + outcome.submitted, 0);
  const { disorder, losses, overlaps } = violationsOf(turnsOf(each), submitted);
  return disorder + losses + overlaps;
}

/** Microseconds of the server for one heartbeat, while more and more replicas that hold nothing are at work. */
export async function heartbeatsOnRedis(about: About, { redisMesh, watchMs }: Effort): Promise<Plot> {
  const startedMs = performance.now();
  const place = await backend.prepare();
  const url = place.where.split(' ')[0]!;
  const client = new Redis(url);
  const replicas: RedisCoordinator[] = [];
  const points: Line['points'][number][] = [];
  let violations = 0;
  const open = (): RedisCoordinator => {
    const replica = new RedisCoordinator({ url, namespace: 'growth', leaseMs: LEASE_MS });
    // Counted as dead: the server was too busy for its heartbeats.
    replica.on('superseded', () => {
      violations += 1;
    });
    return replica;
  };
  try {
    for (const x of redisMesh) {
      while (replicas.length < x) {
        const some = Array.from({ length: Math.min(TOGETHER, x - replicas.length) }, open);
        replicas.push(...some);
        await Promise.all(some.map((replica) => replica.start()));
      }
      // The heartbeat that the last ones send when they have joined.
      await sleep(watchMs / 4);
      const parts: number[] = [];
      for (let part = 0; part < 2; part++) parts.push(await perScript(client, watchMs / 2));
      points.push({ x, ...spread(parts) });
    }
  } finally {
    await Promise.all(replicas.map((replica) => replica.stop()));
    client.disconnect();
    await place.remove();
  }
  return drawn(about, { startedMs, rounds: 2, lines: [{ name: 'of the server', points }], violations });
}

/** Microseconds of the server for each call of a script, over so long or until there were some. */
async function perScript(client: Redis, forMs: number): Promise<number> {
  const before = await scripts(client);
  let after = before;
  while (after.calls - before.calls < FEWEST_CALLS) {
    await sleep(forMs);
    after = await scripts(client);
  }
  return (after.usec - before.usec) / (after.calls - before.calls);
}

async function scripts(client: Redis): Promise<{ calls: number; usec: number }> {
  const told = await client.info('commandstats');
  const [, calls, usec] = /cmdstat_evalsha:calls=(\d+),usec=(\d+)/.exec(told) ?? [];
  return { calls: Number(calls), usec: Number(usec) };
}
