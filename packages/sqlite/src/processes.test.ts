import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const WORKER = fileURLToPath(new URL('../testing/worker.mjs', import.meta.url));

interface Told {
  readonly replicaId: string;
  readonly atMs: number;
  readonly event: string;
  readonly key?: string;
  readonly id?: string;
  readonly fence?: number;
  readonly seq?: number;
  readonly attempt?: number;
}

/** A replica in a process of its own. */
class Worker {
  readonly process: ChildProcess;
  readonly told: Told[] = [];
  readonly #waiting = new Set<() => void>();

  constructor(path: string, replicaId: string, leaseMs: number) {
    this.process = fork(WORKER, [path, replicaId, String(leaseMs)], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.process.on('message', (told) => {
      this.told.push(told as Told);
      for (const wake of this.#waiting) wake();
    });
  }

  do(command: string, rest: object = {}): void {
    this.process.send({ command, ...rest });
  }

  /** The first thing told, from the `from`th on, that fits. */
  async hears(event: string, fits: (told: Told) => boolean = () => true, from = 0): Promise<Told> {
    for (;;) {
      const found = this.told.slice(from).find((told) => told.event === event && fits(told));
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          resolve();
        };
        this.#waiting.add(wake);
      });
    }
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const gone = new Promise((resolve) => this.process.once('exit', resolve));
    this.process.kill('SIGKILL');
    await gone;
  }
}

let folder = '';
let path = '';
let workers: Worker[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-sqlite-'));
  path = join(folder, 'mesh.db');
  workers = [];
});

afterEach(async () => {
  await Promise.all(workers.map((worker) => worker.kill()));
  rmSync(folder, { recursive: true, force: true });
});

let born = 0;

async function start(leaseMs = 12_000): Promise<Worker> {
  born += 1;
  const worker = new Worker(path, `replica-${born}`, leaseMs);
  workers.push(worker);
  await worker.hears('started');
  return worker;
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

test('a process that waits is granted a key as soon as its holder was killed, long before the lease is over', async () => {
  const kills = Number(process.env.BOTMESH_KILLS ?? 20);
  const ring = await Promise.all([start(), start(), start(), start()]);
  ring[0]!.do('hold', { key: 'chat' });
  await ring[0]!.hears('granted');
  for (const worker of ring.slice(1)) {
    worker.do('hold', { key: 'chat' });
    await worker.hears('reserved');
  }
  const delays: number[] = [];
  let fence = 0;
  for (let kill = 0; kill < kills; kill++) {
    const replacement = start();
    const holder = ring.shift()!;
    const killedAtMs = nowMs();
    await holder.kill();
    const granted = await ring[0]!.hears('granted');
    delays.push(granted.atMs - killedAtMs);
    expect(granted.fence).toBeGreaterThan(fence);
    fence = granted.fence!;
    const next = await replacement;
    ring.push(next);
    next.do('hold', { key: 'chat' });
    await next.hears('reserved');
  }

  delays.sort((a, b) => a - b);
  console.log(
    `killed ${kills}: next turn after ${delays[delays.length >> 1]!.toFixed(0)} ms (median), ${delays.at(-1)!.toFixed(0)} ms (worst)`,
  );
  expect(delays[delays.length >> 1]).toBeLessThan(200);
  // Far below the lease of 12 s, on a machine that others use as well.
  expect(delays.at(-1)).toBeLessThan(2_000);
}, 120_000);

test('the message of a process that was killed in the middle is handled by another', async () => {
  const [first, second] = await Promise.all([start(), start()]);
  first.do('accept', { key: 'chat', id: 'm1' });
  await first.hears('granted');
  await first.kill();

  const handled = await second.hears('handled');
  expect(handled).toMatchObject({ key: 'chat', id: 'm1', attempt: 2 });
}, 60_000);

test('a frozen holder is passed over within the lease, and knows it when it wakes', async () => {
  const leaseMs = 1_500;
  const [first, second] = await Promise.all([start(leaseMs), start(leaseMs)]);
  first.do('hold', { key: 'chat' });
  await first.hears('granted');
  second.do('hold', { key: 'chat' });
  await second.hears('reserved');
  first.process.kill('SIGSTOP');
  const frozenAtMs = nowMs();

  const granted = await second.hears('granted');
  expect(granted.atMs - frozenAtMs).toBeLessThan(2 * leaseMs + 2_000);
  first.process.kill('SIGCONT');
  const lost = await first.hears('lost');
  // By its own clock, or by the answer of a heartbeat that was under way when it froze: whichever it meets first.
  expect(lost).toMatchObject({ key: 'chat', reason: expect.stringMatching(/^(expired|superseded)$/) });
}, 60_000);

test('processes that stop leave nothing but the file', async () => {
  const [first, second] = await Promise.all([start(), start()]);
  const gone = [first, second].map((worker) => new Promise((resolve) => worker.process.once('exit', resolve)));
  first.do('stop');
  second.do('stop');
  await Promise.all(gone);

  expect(readdirSync(folder)).toEqual(['mesh.db']);
}, 60_000);
