import { rmSync } from 'node:fs';
import { dirname } from 'node:path';
import { expect, test } from 'vitest';
import { postgres, redis, sqlite } from '../cluster/backends.js';
import { soak } from './soak.js';

const MINUTE_MS = 60_000;
const { BOTMESH_SOAK_MINUTES, BOTMESH_SOAK_BACKEND, BOTMESH_SEED } = process.env;
/** What every change pays for. They run beside each other, so that all together take a minute. */
const CI_MINUTES: Record<string, number> = { Redis: 1, SQLite: 0.5, Postgres: 0.5 };
const seed = Number(BOTMESH_SEED ?? (Date.now() % 1_000_000) + 1);
const backends = [sqlite, redis, postgres].filter(({ name }) =>
  [undefined, name.toLowerCase()].includes(BOTMESH_SOAK_BACKEND),
);

function minutesOn(name: string): number {
  return Number(BOTMESH_SOAK_MINUTES ?? CI_MINUTES[name]);
}

test.concurrent.each(backends)(
  '$name: with processes killed, frozen and replaced, 200 chats have every message handled, in order',
  async (backend) => {
    const durationMs = minutesOn(backend.name) * MINUTE_MS;
    console.log(`soak on ${backend.name}: seed ${seed}, ${durationMs / MINUTE_MS} min`);

    const { faults, keptAt, ...counts } = await soak({ backend, seed, durationMs });
    const { received, handled, begunAgain, doubled, kills, freezes, restarts } = counts;
    console.log(
      `soak on ${backend.name}: ${received} received, ${handled} handled; ${kills} kills, ${freezes} freezes, ${restarts} restarts; ` +
        `${begunAgain} begun again before their handler had ended, ${doubled} of them answered twice`,
    );

    expect(faults, `seed ${seed}, diary at ${keptAt}`).toEqual([]);
    expect(handled).toBe(received);
    expect(received).toBeGreaterThan(200);
  },
  Math.max(...backends.map(({ name }) => minutesOn(name) * MINUTE_MS)) + 5 * MINUTE_MS,
);

test(
  'processes that do not agree with each other are found out',
  async () => {
    const { faults, keptAt = '' } = await soak({ backend: sqlite, seed, durationMs: 8_000, chats: 20, isApart: true });
    rmSync(dirname(keptAt), { recursive: true });

    expect(faults.join('\n')).toMatch(/was handled after|after message|was parked/);
  },
  3 * MINUTE_MS,
);
