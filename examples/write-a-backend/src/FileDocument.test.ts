import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type ConformanceSubject, coordinatorConformance, inboxConformance, storeMesh } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import { DocumentStore } from './DocumentStore.js';
import { FileDocument } from './FileDocument.js';

async function withFolder(run: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'botmesh-'));
  try {
    await run(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test('of many who replace one version, one does', () =>
  withFolder(async (folder) => {
    const writers = Array.from({ length: 8 }, () => new FileDocument(folder));

    const won = await Promise.all(writers.map((writer, at) => writer.replace(0, `text ${at}`)));

    expect(won.filter((each) => each)).toHaveLength(1);
    expect(await writers[0]?.read()).toMatchObject({ number: 1, text: `text ${won.indexOf(true)}` });
  }));

test('eighty additions by four writers are eighty', () =>
  withFolder(async (folder) => {
    async function add(times: number): Promise<void> {
      const document = new FileDocument(folder);
      for (let done = 0; done < times; ) {
        const { number, text } = await document.read();
        if (await document.replace(number, String(Number(text ?? 0) + 1))) done++;
      }
    }

    await Promise.all([add(20), add(20), add(20), add(20)]);

    expect((await new FileDocument(folder).read()).text).toBe('80');
  }));

test('a writer so late that its version was cleared away changes nothing, and old versions do not pile up', () =>
  withFolder(async (folder) => {
    const document = new FileDocument(folder);
    for (let number = 0; number < 25; number++) await document.replace(number, `text ${number}`);
    const names = await readdir(folder);

    expect(await document.replace(3, 'late')).toBe(false);
    expect(await document.read()).toMatchObject({ number: 25, text: 'text 24' });
    expect(names).toHaveLength(16);
  }));

test('a hint reaches a listener elsewhere, and nobody once it has ended', () =>
  withFolder(async (folder) => {
    const [here, there] = [new FileDocument(folder), new FileDocument(folder)];
    const heard = new Promise<string>((resolve, reject) => {
      there.listen('name', resolve).then(() => here.send('name', 'hello'), reject);
    });

    expect(await heard).toBe('hello');
    await Promise.all([here.close(), there.close()]);
    await expect(new FileDocument(folder).send('nobody', 'hello')).rejects.toThrow('ENOENT');
  }));

/** A disk in memory where there is one: this measures the protocol, not how long a busy disk takes for a file. */
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

const subject: ConformanceSubject = {
  name: 'files',
  async open({ shards = 1, leaseMs = 6_000 } = {}) {
    const folders = await Promise.all(Array.from({ length: shards }, () => mkdtemp(join(PLACE, 'botmesh-'))));
    await Promise.all(folders.map((folder) => DocumentStore.create(new FileDocument(folder))));
    return storeMesh({
      leaseMs,
      // Each step reads and writes whole files, beside whatever else the machine does.
      slackMs: leaseMs / 2,
      shards,
      createStore: (shard) => new DocumentStore(new FileDocument(folders[shard]!)),
      close: async () => {
        await Promise.all(folders.map((folder) => rm(folder, { recursive: true })));
      },
    });
  },
};

// On a disk, in real time: a few of them, one after the other. All of them are run on a document in memory.
describe('a coordinator on files', () => {
  const isQuick = ({ promise, title }: { promise: number; title: string }): boolean =>
    [6, 12, 14, 18, 21].includes(promise) && !title.includes(' — ');
  const tests = [...coordinatorConformance(subject), ...inboxConformance(subject)].filter(isQuick);
  for (const each of tests) test(each.title, () => each.run());
});

test('processes take turns by a folder, also when the one that holds the turn is killed', async () => {
  const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

  const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: 20_000 });

  expect(stdout).toContain('counted to 30 of 30');
});
