import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { hostNowMs, TestProcess } from './process.test-support.js';

let folder = '';
let path = '';
let workers: TestProcess[] = [];

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

async function start(leaseMs = 12_000): Promise<TestProcess> {
  born += 1;
  const worker = new TestProcess('worker.mjs', [path, `replica-${born}`, String(leaseMs)]);
  workers.push(worker);
  await worker.hears('started');
  return worker;
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
    // Before the kill: a process that starts takes what the waiting ones need of the processors.
    const next = await start();
    const holder = ring.shift()!;
    const killedAtMs = hostNowMs();
    await holder.kill();
    const granted = await ring[0]!.hears('granted');
    delays.push(granted.atMs - killedAtMs);
    expect(granted.fence).toBeGreaterThan(fence);
    fence = granted.fence as number;
    ring.push(next);
    next.do('hold', { key: 'chat' });
    await next.hears('reserved');
  }

  delays.sort((a, b) => a - b);
  const share = (part: number): number => delays[Math.ceil(part * delays.length) - 1]!;
  const [median, most, worst] = [share(0.5), share(0.9), share(1)];
  const late = delays.filter((delay) => delay > 200).length;
  console.log(
    `killed ${kills}: next turn after ${median.toFixed(0)} ms (median), ${most.toFixed(0)} ms (9 of 10), ${worst.toFixed(0)} ms (worst); ${late} over 200 ms`,
  );
  expect(median).toBeLessThan(200);
  // Far below the lease of 12 s, on a machine that others use as well.
  expect(worst).toBeLessThan(2_000);
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
  const heartbeatMs = leaseMs / 6;
  const [first, second] = await Promise.all([start(leaseMs), start(leaseMs)]);
  first.do('hold', { key: 'chat' });
  await first.hears('granted');
  second.do('hold', { key: 'chat' });
  await second.hears('reserved');
  first.child.kill('SIGSTOP');
  const frozenAtMs = hostNowMs();

  const granted = await second.hears('granted');
  const delayMs = granted.atMs - frozenAtMs;
  console.log(`froze the holder, lease ${leaseMs} ms: next turn after ${delayMs.toFixed(0)} ms`);
  expect(delayMs).toBeLessThan(leaseMs + heartbeatMs + 500);
  first.child.kill('SIGCONT');
  const lost = await first.hears('lost');
  // By its own clock, or by the answer of a heartbeat that was under way when it froze: whichever it meets first.
  expect(lost).toMatchObject({ key: 'chat', reason: expect.stringMatching(/^(expired|superseded)$/) });
}, 60_000);

test('processes that stop leave nothing but the file', async () => {
  const [first, second] = await Promise.all([start(), start()]);
  first.do('stop');
  second.do('stop');
  await Promise.all([first.ended, second.ended]);

  expect(readdirSync(folder)).toEqual(['mesh.db']);
}, 60_000);
