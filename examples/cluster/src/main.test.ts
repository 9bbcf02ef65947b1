import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { signWebhook } from '@botmesh/core';
import { afterEach, beforeEach, expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const SECRET = 'a secret of this test';
const ANSWER_WITHIN_MS = 2_000;

let folder = '';
let program: ChildProcess;
let ended: Promise<unknown>;
let out = '';
let err = '';
const whenWritten: (() => void)[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-cluster-'));
});

function start(settings: Record<string, string> = {}): void {
  out = '';
  err = '';
  const env = { ...process.env, MESH_FILE: join(folder, 'mesh.db'), WEBHOOK_SECRET: SECRET, PORT: '0', ...settings };
  program = spawn(process.execPath, [PROGRAM], { env, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 });
  ended = new Promise((resolve) => program.once('close', resolve));
  program.stderr?.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  program.stdout?.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    for (const wake of whenWritten.splice(0)) wake();
  });
}

afterEach(async () => {
  program.kill('SIGTERM');
  await ended;
  rmSync(folder, { recursive: true, force: true });
});

/** Resolves when `what` was printed `times` times. */
async function printed(what: RegExp, times = 1): Promise<RegExpExecArray[]> {
  for (;;) {
    const found = [...out.matchAll(new RegExp(what, 'gm'))];
    if (found.length >= times) return found;
    await new Promise<void>((resolve) => whenWritten.push(resolve));
  }
}

/**
 * Delivers as a platform does: again, under the same id, until it is taken in. A connection that the primary hands to a
 * worker in the moment of its death is never answered, nor closed: hence the limit.
 */
async function deliver(port: string, message: { id: string; chat: string; text: string }): Promise<void> {
  const body = JSON.stringify(message);
  for (;;) {
    const headers = { 'x-botmesh-signature': signWebhook(SECRET, body, Date.now()), connection: 'close' };
    const call = { method: 'POST', body, headers, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) };
    const answer = await fetch(`http://127.0.0.1:${port}/`, call).catch(() => undefined);
    await answer?.text().catch(() => {});
    if (answer?.ok) return;
    if (answer !== undefined && answer.status !== 503) throw new Error(`answered ${answer.status}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test('a chat goes on in another worker when the one that has it is killed in mid-turn', async () => {
  start();
  const [first] = await printed(/listens on port (\d+)$/, 3);
  const port = first?.[1] ?? '';
  await deliver(port, { id: '1', chat: 'ana', text: 'slow' });
  const [begun] = await printed(/^ana: One moment\. \(process (\d+)\)$/);
  process.kill(Number(begun?.[1]), 'SIGKILL');
  for (let i = 2; i <= 6; i++) await deliver(port, { id: `${i}`, chat: 'ana', text: `text ${i}` });
  await printed(/^ana: Message 6/);

  const answers = [...out.matchAll(/^ana: (Message.*) \(process (\d+)\)$/gm)];
  expect(answers.map(([, text]) => text)).toEqual([
    'Message 1 took a while.',
    ...[2, 3, 4, 5, 6].map((i) => `Message ${i}: text ${i}`),
  ]);
  expect(answers.map(([, , pid]) => pid)).not.toContain(begun?.[1]);
  await printed(/listens on port \d+$/, 4);
  program.kill('SIGTERM');
  expect(await ended).toBe(0);
  // SQLite's own log may stay where the last two close at one moment; no socket and no note of a replica may.
  expect(readdirSync(folder)).not.toContain('mesh.db-replicas');
}, 60_000);

test('without a secret it ends, and says so in one line', async () => {
  start({ WEBHOOK_SECRET: '' });

  expect(await ended).toBe(1);
  expect(err).toMatch(/^No worker could start: WEBHOOK_SECRET is not set\..*\n$/);
  expect(out).toBe('');
}, 30_000);

test('with a port that is in use it ends, and says so in one line', async () => {
  const server = createServer().listen(0);
  await once(server, 'listening');
  start({ PORT: `${(server.address() as AddressInfo).port}` });
  const code = await ended;
  server.close();

  expect(code).toBe(1);
  expect(err).toBe('No worker could start: the port is in use. Set PORT to another one.\n');
}, 30_000);
