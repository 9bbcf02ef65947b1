import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { sqlite } from './backends/sqlite.js';
import { until } from './until.js';

const PROGRAM = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'botmesh-command-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Run {
  readonly process: ChildProcess;
  readonly ended: Promise<number | null>;
  said(): string;
}

function lab(...args: string[]): Run {
  const child = spawn(process.execPath, [PROGRAM, '--reports', join(folder, 'reports'), ...args], {
    env: { ...process.env, TMPDIR: folder },
  });
  let said = '';
  for (const output of [child.stdout, child.stderr]) output.on('data', (text: Buffer) => (said += String(text)));
  return { process: child, ended: new Promise((resolve) => child.on('exit', resolve)), said: () => said };
}

/** Command lines of processes that know a path. */
function processesOf(path: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      } catch {
        return '';
      }
    })
    .filter((line) => line.includes(path));
}

test('without a backend it says what is missing, and what there is', async () => {
  const run = lab();

  expect(await run.ended).toBe(2);
  expect(run.said()).toContain('--backend is missing');
  expect(run.said()).toContain('postgres-standby');
});

test.skipIf(sqlite.whyNot() !== undefined || process.platform !== 'linux')(
  'interrupted, it leaves no process and no folder',
  { timeout: 120_000 },
  async () => {
    const run = lab('--backend', 'sqlite', '--minutes', '2', '--replicas', '2');
    await until('replicas are at work', () => run.said().includes('at work'), 60_000);
    const replica = processesOf(join(folder, 'botmesh-fleet-')).find((line) => line.includes('"path"'))!;
    const site = dirname(dirname(/"path":"([^"]+)"/.exec(replica)![1]!));
    expect(existsSync(site)).toBe(true);

    run.process.kill('SIGINT');

    expect(await run.ended, run.said()).toBe(130);
    expect(processesOf(folder)).toEqual([]);
    expect(existsSync(site)).toBe(false);
    expect(readdirSync(folder)).toEqual(['reports']);
  },
);
