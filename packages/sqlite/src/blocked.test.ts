import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { TestProcess } from './process.test-support.js';

const LEASE_MS = 1_500;
const HARMLESS = 100;

test.concurrent.each([1, 3])(
  'a message that blocks each of %i processes is parked, and all others are handled',
  { timeout: 60_000 },
  async (processes) => {
    const folder = mkdtempSync(join(tmpdir(), 'botmesh-sqlite-'));
    const args = (n: number) => [join(folder, 'mesh.db'), `replica-${n}`, String(LEASE_MS)];
    const replicas = Array.from({ length: processes }, (_, n) => new TestProcess('blocker.mjs', args(n)));
    try {
      await Promise.all(replicas.map((replica) => replica.hears('started')));
      replicas[0]!.do('take', { count: HARMLESS });

      const parked = await Promise.any(replicas.map((replica) => replica.hears('parked')));
      const handled = () => new Set(replicas.flatMap(({ told }) => told.flatMap(({ body }) => body ?? [])));
      const untilMs = performance.now() + 20_000;
      while (handled().size < HARMLESS && performance.now() < untilMs)
        await new Promise((next) => setTimeout(next, 50));

      expect(handled().size).toBe(HARMLESS);
      expect([parked.key, parked.attempts]).toEqual(['chat poison', 3]);
      expect(replicas.flatMap(({ told }) => told).filter(({ event }) => event === 'parked')).toHaveLength(1);
      expect(replicas.reduce((sum, replica) => sum + replica.count('blocks'), 0)).toBe(3);
    } finally {
      await Promise.all(replicas.map((replica) => replica.kill()));
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
