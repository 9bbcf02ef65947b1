// For the tests with real faults: how long what may take, and what must be true at the end.
import { expect } from 'vitest';
import { type Connect, Fleet, type FleetOptions, isLong, type Outcome, Places } from './lab.js';

/** Long enough for processes that share two cores with others. */
export const LEASE_MS = 3000;
/** A lost store grants nothing for two thirds of a lease and a little; a dead replica is skipped within a lease and a beat. */
export const RECOVERY_MS = 30_000;
export const SEED = Number(process.env.BOTMESH_FAULTS_SEED ?? Math.floor(Math.random() * 1e6));
export const LIMITS = { timeout: isLong ? 3_600_000 : 300_000 };

/** One replica by each library, and the mesh at work. */
export async function started(url: string, options: Partial<FleetOptions> = {}): Promise<Fleet> {
  const fleet = new Fleet({ backend: 'postgres', seed: SEED, leaseMs: LEASE_MS, ...options });
  const ways: Connect[] = [
    { by: 'pool', url },
    { by: 'instance', url },
  ];
  await Promise.all(ways.map((way) => fleet.start(way)));
  await fleet.isAlive(RECOVERY_MS);
  return fleet;
}

/** The mesh goes on, comes to rest, and has kept every promise. */
export async function expectSound(fleet: Fleet): Promise<Outcome> {
  await fleet.isAlive(RECOVERY_MS);
  await fleet.hasWorked(RECOVERY_MS);
  const outcome = await fleet.finish(RECOVERY_MS);
  expect(outcome.violations, `seed ${SEED}`).toEqual([]);
  return outcome;
}

/** As many fleets of one file at once as two cores can run in time. */
export const places = new Places(3);
