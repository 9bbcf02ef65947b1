import { checkHistory } from '@botmesh/core/testing';
import type { Coverage } from './coverage.js';
import type { Life } from './Life.js';
import { Nemesis } from './nemesis.js';
import { World } from './World.js';

export interface SimulationOptions {
  /** Keep a line for everything that happens. */
  readonly trace?: boolean;
}

export interface Simulation {
  readonly seed: number;
  readonly violations: readonly string[];
  readonly coverage: Coverage;
  readonly trace: readonly string[];
  /** Everything that replicas saw, as one text: the same for the same seed. */
  readonly fingerprint: () => string;
  readonly virtualMs: number;
}

/**
 * One run of the shipped engine on a mesh in memory, in virtual time: five replicas at work, harmed in the ways that `seed`
 * picks, then left in peace until everything must have come to its end. The same seed gives the same run.
 */
export async function simulate(seed: number, options: SimulationOptions = {}): Promise<Simulation> {
  const world = new World({ seed, isTraced: options.trace === true });
  const nemesis = new Nemesis(world);
  try {
    await world.clock.run(() => play(world, nemesis));
  } catch (error) {
    world.violate(`the run ended with ${String(error)}`);
  }
  const finished = world.violations.length === 0;
  for (const { rule, text } of checkHistory(world.history, { finished })) world.violations.push(`${rule}: ${text}`);
  return {
    seed,
    violations: world.violations,
    coverage: world.coverage,
    trace: world.trace,
    fingerprint: () => JSON.stringify(world.history),
    virtualMs: world.now(),
  };
}

async function play(world: World, nemesis: Nemesis): Promise<void> {
  const { leaseMs } = world.times;
  await nemesis.begin();
  await nemesis.rage(world.between(1.5, 5) * leaseMs);
  world.isDraining = true;
  await drain(world, nemesis.lives);
  await endInOrder(world, nemesis.lives);
}

/**
 * After the last fault everything comes to an end within the longest outage's aftermath, and the time at the head of every
 * forgotten ticket of one key, one after the other.
 */
async function drain(world: World, lives: readonly Life[]): Promise<void> {
  const { quarantineMs, leaseMs, beatMs, ticketTtlMs } = world.times;
  const forgotten = Math.max(0, ...world.forgotten.values());
  const boundMs = quarantineMs + leaseMs + 3 * beatMs + 6000 + forgotten * (ticketTtlMs + beatMs);
  const untilMs = world.now() + boundMs;
  while (world.now() < untilMs) {
    await world.clock.sleep(beatMs / 2);
    if ((await leftovers(world, lives)).length === 0) return;
  }
  for (const left of await leftovers(world, lives)) world.violate(`${left}, ${boundMs} ms after the last fault`);
}

async function leftovers(world: World, lives: readonly Life[]): Promise<string[]> {
  const found: string[] = [];
  for (const life of lives) {
    if (life.isOver) continue;
    for (const { what, sinceMs } of life.pending)
      found.push(`${life.name} ${what} has not settled since ${sinceMs.toFixed(1)}`);
  }
  for (const shard of await world.mesh.inspect()) {
    if (shard.quarantined) found.push('the store is quarantined');
    for (const queue of shard.queues) found.push(`the store still has a queue: ${JSON.stringify(queue)}`);
    const living = lives.filter((life) => !life.isOver && !life.isStopping).map((life) => life.replicaId);
    for (const { replicaId, epoch, replaced } of shard.replicas) {
      if (replaced || !living.includes(replicaId)) found.push(`the store still keeps ${replicaId} (epoch ${epoch})`);
    }
  }
  return found;
}

async function endInOrder(world: World, lives: readonly Life[]): Promise<void> {
  const { mesh } = world;
  for (const shard of await mesh.inspect()) {
    for (const { key, seq } of shard.parked) {
      world.record({ kind: 'parked', at: world.now(), replica: 'store', key: key.slice(2), seq });
    }
  }
  for (const life of lives) if (!life.isOver) await life.stop();
  // Requests repeated late, and looks at the clock that nobody needs any more.
  await world.clock.sleep(world.times.leaseMs);
  for (const shard of await mesh.inspect()) {
    // A join repeated late leaves a replica without tickets, until somebody's heartbeats bury it.
    const isRepeated = world.coverage['repeated: join'] !== undefined;
    const left = shard.replicas.filter((replica) => !isRepeated || replica.tickets > 0);
    if (left.length > 0) world.violate(`the store counts ${left.length} replicas after all have stopped`);
  }
  if (world.clock.pending > 0) world.violate(`${world.clock.pending} timers are left after all have stopped`);
  // A frozen process keeps its subscription, and one that was repeated late outlives its replica.
  const isTidy = lives.every((life) => life.isRunning) && world.coverage['repeated: subscribe'] === undefined;
  if (mesh.listeners > 0 && isTidy) {
    world.violate(`${mesh.listeners} subscriptions are left after all have stopped`);
  }
}
