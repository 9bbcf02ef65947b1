import type { ChildProcess } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { signWebhook } from '@botmesh/core';
import { afterEach, beforeEach, expect, test } from 'vitest';

interface App {
  readonly script: string;
  readonly instances: number;
  readonly exec_mode: string;
  readonly env: Record<string, string>;
}

const require = createRequire(import.meta.url);
const CONFIG = require.resolve('../ecosystem.config.cjs');
const [app] = (require(CONFIG) as { apps: [App] }).apps;
const SECRET = 'a secret of this test';
const ANSWER_WITHIN_MS = 2_000;

let folder = '';
let out = '';
const instances: ChildProcess[] = [];
const whenWritten: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-pm2-'));
  out = '';
});

afterEach(async () => {
  await Promise.all(instances.splice(0).map((instance) => end(instance, 'SIGKILL')));
  rmSync(folder, { recursive: true, force: true });
});

/** Starts one instance as PM2's cluster mode does, and waits for its word as `wait_ready` has it. */
async function start(): Promise<ChildProcess> {
  cluster.setupPrimary({ exec: join(dirname(CONFIG), app.script), args: [], execArgv: [], silent: true });
  const env = { ...app.env, MESH_FILE: join(folder, 'mesh.db'), WEBHOOK_SECRET: SECRET, PORT: '0' };
  const instance: ChildProcess = cluster.fork(env).process;
  instances.push(instance);
  instance.stderr?.pipe(process.stderr);
  instance.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    for (const wake of whenWritten.splice(0)) wake();
  });
  for (;;) if ((await once(instance, 'message'))[0] === 'ready') return instance;
}

async function end(instance: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (instance.exitCode !== null || instance.signalCode !== null) return;
  const ended = once(instance, 'exit');
  instance.kill(signal);
  await ended;
}

async function printed(what: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const found = what.exec(out);
    if (found !== null) return found;
    await new Promise<void>((resolve) => whenWritten.push(resolve));
  }
}

/**
 * Delivers as a platform does: again, under the same id, until it is taken in. A connection that is handed to an instance
 * in the moment of its death is never answered, nor closed: hence the limit.
 */
async function deliver(port: string, message: { id: string; chat: string; text: string }): Promise<void> {
  const body = JSON.stringify(message);
  for (;;) {
    const headers = { 'x-botmesh-signature': signWebhook(SECRET, body, Date.now()), connection: 'close' };
    const call = { method: 'POST', body, headers, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) };
    const answer = await fetch(`http://127.0.0.1:${port}/`, call).catch(() => undefined);
    await answer?.text().catch(() => {});
    if (answer?.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('an instance killed in mid-turn, and one replaced as by a reload, lose and reorder nothing', async () => {
  while (instances.length < app.instances) await start();
  const [, port = ''] = await printed(/listens on port (\d+)/);
  await deliver(port, { id: '1', chat: 'ana', text: 'slow' });
  const [, begun] = await printed(/One moment\. \(process (\d+)\)/);
  const holder = instances.find(({ pid }) => pid === Number(begun));
  const other = instances.find(({ pid }) => pid !== Number(begun));
  await end(holder!, 'SIGKILL');
  for (let i = 2; i <= 4; i++) await deliver(port, { id: `${i}`, chat: 'ana', text: `text ${i}` });
  const next = await start();
  const left = end(other!, 'SIGINT');
  for (let i = 5; i <= 8; i++) await deliver(port, { id: `${i}`, chat: 'ana', text: `text ${i}` });
  await left;
  await printed(/Message 8/);

  expect(app).toMatchObject({ instances: 2, exec_mode: 'cluster' });
  expect([...out.matchAll(/^ana: (Message.*) \(process \d+\)$/gm)].map(([, text]) => text)).toEqual([
    'Message 1 took a while.',
    ...[2, 3, 4, 5, 6, 7, 8].map((i) => `Message ${i}: text ${i}`),
  ]);
  expect(other!.exitCode).toBe(0);
  await end(next, 'SIGINT');
  expect(next.exitCode).toBe(0);
}, 60_000);
