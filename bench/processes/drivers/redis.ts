import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RedisCoordinator } from '@botmesh/redis';
import { Redis } from 'ioredis';
import { RedisTicket } from '../bounds/RedisTicket.js';
import { ours } from '../ours.js';
import type { Backend } from '../subject.js';

const PROGRAM = process.env.BOTMESH_REDIS_SERVER ?? 'redis-server';
const NAMESPACE = 'bench';

const [turns, accepted] = ours((where) => new RedisCoordinator({ url: where.split(' ')[0]!, namespace: NAMESPACE }));

interface Server {
  readonly url: string;
  readonly child: ChildProcess;
  readonly folder: string;
}

let server: Promise<Server> | undefined;
let runs = 0;

/** A server of our own, without persistence, for all runs: after its first start the mesh waits out a quarantine. */
async function start(): Promise<Server> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-bench-'));
  const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', folder];
  const child = spawn(PROGRAM, settings, { stdio: 'ignore' });
  const failed = new Promise<never>((_resolve, reject) => child.once('error', reject));
  const url = `redis://127.0.0.1:${port}`;
  process.once('exit', () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await Promise.race([ready(url), failed]);
  await endQuarantine(url);
  child.unref();
  return { url, child, folder };
}

async function ready(url: string): Promise<void> {
  const client = new Redis(url, { lazyConnect: true, retryStrategy: () => 50, maxRetriesPerRequest: 100 });
  client.on('error', () => {});
  await client.ping();
  client.disconnect();
}

async function endQuarantine(url: string): Promise<void> {
  const coordinator = new RedisCoordinator({ url, namespace: NAMESPACE });
  await coordinator.start();
  const leadership = await coordinator.lead('bench', { signal: AbortSignal.timeout(60_000) });
  await leadership.resign();
  await coordinator.stop();
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address();
      probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** Redis, or what BOTMESH_REDIS_SERVER names, on this machine: the server takes its share of the same cores. */
export const backend: Backend = {
  name: 'redis',
  loads: ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b', 'W1x4', 'W2x4', 'held', 'idle', 'crash'],
  subjects: [
    {
      name: 'plain ticket',
      isOurs: false,
      loads: ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b', 'W1x4', 'W2x4', 'held', 'idle'],
      open: (at) => RedisTicket.open(at),
    },
    turns,
    accepted,
  ],
  goals: {
    'W1 rate': { on: 'ratio', atLeast: 1 },
    'W1h handOverP50': { on: 'ratio', atMost: 1.1 },
    'W2 rate': { on: 'ratio', atLeast: 1.3 },
    'W2 cpu': { on: 'ratio', atMost: 1 },
    'W2p addedP50': { on: 'ratio', atMost: 1.2 },
    'W3 took': { on: 'ratio', atMost: 1.25 },
    'held cpuShare': { on: 'value', atMost: 1 },
    'W1 share': { on: 'value', atLeast: 45 },
    // Seven sixths of the lease of 12 s, and half a second.
    'crash crash': { on: 'value', atMost: 14_500 },
  },
  async prepare() {
    server ??= start();
    const { url } = await server;
    runs += 1;
    const prefix = `plain-${runs}`;
    const remove = async (): Promise<void> => {
      const client = new Redis(url);
      const left = await client.keys(`${prefix}:*`);
      if (left.length > 0) await client.unlink(left);
      client.disconnect();
    };
    return { where: `${url} ${prefix}`, remove };
  },
};
