import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
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

test('two hundred additions by four writers are two hundred', () =>
  withFolder(async (folder) => {
    async function add(times: number): Promise<void> {
      const document = new FileDocument(folder);
      for (let done = 0; done < times; ) {
        const { number, text } = await document.read();
        if (await document.replace(number, String(Number(text ?? 0) + 1))) done++;
      }
    }

    await Promise.all([add(50), add(50), add(50), add(50)]);

    expect((await new FileDocument(folder).read()).text).toBe('200');
  }));

test('a writer so late that its version was cleared away changes nothing', () =>
  withFolder(async (folder) => {
    const document = new FileDocument(folder);
    for (let number = 0; number < 40; number++) await document.replace(number, `text ${number}`);

    expect(await document.replace(3, 'late')).toBe(false);
    expect(await document.read()).toMatchObject({ number: 40, text: 'text 39' });
  }));

test('old versions and drafts do not pile up', () =>
  withFolder(async (folder) => {
    const document = new FileDocument(folder);
    for (let number = 0; number < 40; number++) await document.replace(number, 'text');

    expect((await readdir(folder)).length).toBeLessThanOrEqual(17);
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

test('processes take turns by a folder, also when the one that holds the turn is killed', async () => {
  const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

  const { stdout } = await promisify(execFile)(process.execPath, [program], { timeout: 20_000 });

  expect(stdout).toContain('counted to 30 of 30');
});
