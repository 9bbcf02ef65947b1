import { compareStores, memoryStoreLab, stateConformance } from '@botmesh/core/testing';
import { afterEach, beforeAll, expect, test, vi } from 'vitest';
import { PLANTED, type Planted, planted } from '../testing/planted.js';
import { storeLab } from '../testing/store-lab.js';
import { findDriver, type Row, type Value } from './driver.js';
import { makeFolder } from './lab.test-support.js';
import { SqliteStateStore } from './SqliteStateStore.js';

/** The bug that statements have now, and into how many of them it was planted. */
const now = vi.hoisted(() => ({ plant: (text: string): string => text, texts: new Set<string>() }));
vi.mock(import('./sql.js'), async (importOriginal) => {
  const { Sql } = await importOriginal();
  class WithBug extends Sql {
    override get(sql: string, ...values: Value[]): Row | undefined {
      return super.get(now.plant(sql), ...values);
    }
    override all(sql: string, ...values: Value[]): Row[] {
      return super.all(now.plant(sql), ...values);
    }
    override run(sql: string, ...values: Value[]): void {
      super.run(now.plant(sql), ...values);
    }
  }
  return { Sql: WithBug };
});

/** As many random lists as CI runs. */
const LISTS = 40;

// Loading takes real time, which a virtual clock would not wait for.
beforeAll(async () => {
  await findDriver();
});

afterEach(() => {
  now.plant = (text) => text;
  now.texts.clear();
});

function plant(bug: Planted): void {
  now.plant = (text) => {
    const changed = planted(bug, text);
    if (changed !== undefined) now.texts.add(text);
    return changed ?? text;
  };
}

/** What finds the bug, in words; undefined when nothing does. */
async function findByLists(): Promise<string | undefined> {
  for (let seed = 1; seed <= LISTS; seed++) {
    const options = { reference: memoryStoreLab, subject: storeLab, seed, steps: 60, shrinkTries: 0 };
    const difference = await compareStores(options);
    if (difference !== undefined) return `list ${seed}: ${difference.found}`;
  }
  return undefined;
}

async function findByState(): Promise<string | undefined> {
  const suite = stateConformance({
    name: 'planted',
    async open() {
      const folder = makeFolder();
      const store = new SqliteStateStore({ path: folder.file });
      const close = async (): Promise<void> => {
        await store.close();
        folder.remove();
      };
      return { store, close };
    },
  });
  for (const { run, title } of suite) {
    const why = await run().then(
      () => undefined,
      (error: Error) => error.message,
    );
    if (why !== undefined) return `${title}: ${why}`;
  }
  return undefined;
}

const find = { lists: findByLists, state: findByState } as const;

for (const bug of PLANTED) {
  test(`a planted bug is found: ${bug.name}`, { timeout: 60_000 }, async ({ task }) => {
    const startedMs = performance.now();
    plant(bug);

    const found = await find[bug.foundBy]();

    Object.assign(task.meta, { planted: { by: found, ms: performance.now() - startedMs } });
    expect(now.texts.size).toBe(1);
    expect(found).toBeDefined();
    // A statement that does not run at all shows nothing.
    expect(found).not.toMatch(/syntax error|unavailable/);
  });
}
