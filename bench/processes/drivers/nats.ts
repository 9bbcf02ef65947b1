import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { NatsCoordinator } from '@botmesh/nats';
import { connect } from '@nats-io/transport-node';
import { NatsTicket } from '../bounds/NatsTicket.js';
import { ours } from '../ours.js';
import type { Backend } from '../subject.js';

const PROGRAM = process.env.BOTMESH_NATS_SERVER ?? 'nats-server';
const NAMESPACE = 'bench';

const [turns, accepted] = ours((where) => new NatsCoordinator({ url: where.split(' ')[0]!, namespace: NAMESPACE }));

let server: Promise<string> | undefined;
let runs = 0;

/** A server of our own, for all runs: after its first start the mesh waits out a quarantine. */
async function start(): Promise<string> {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-bench-'));
  const child: ChildProcess = spawn(PROGRAM, ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', folder], {
    stdio: 'ignore',
  });
  const failed = new Promise<never>((_resolve, reject) => child.once('error', reject));
  const url = `nats://127.0.0.1:${port}`;
  process.once('exit', () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  const client = connect({ servers: url, waitOnFirstConnect: true, reconnectTimeWait: 50, maxReconnectAttempts: 100 });
  await (await Promise.race([client, failed])).close();
  await endQuarantine(url);
  child.unref();
  return url;
}

async function endQuarantine(url: string): Promise<void> {
  const coordinator = new NatsCoordinator({ url, namespace: NAMESPACE });
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

/** nats-server, or what BOTMESH_NATS_SERVER names, on this machine: the server takes its share of the same cores. */
export const backend: Backend = {
  name: 'nats',
  loads: ['W1', 'W1h', 'W1hx8', 'W2', 'W2p', 'W2x4', 'held', 'idle', 'crash'],
  subjects: [
    {
      name: 'plain ticket',
      isOurs: false,
      loads: ['W1', 'W1h', 'W1hx8', 'W2', 'W2p', 'W2x4', 'held', 'idle'],
      open: (at) => NatsTicket.open(at),
    },
    turns,
    accepted,
  ],
  goals: {
    'W1h handOverP50': { on: 'ratio', atMost: 1.1 },
    'W1hx8 handOverP50': { on: 'ratio', atMost: 1.1 },
    'W2 rate': { on: 'ratio', atLeast: 1 },
    'held cpuShare': { on: 'value', atMost: 1 },
    'W1 share': { on: 'value', atLeast: 45 },
    // Seven sixths of the lease of 12 s, and half a second.
    'crash crash': { on: 'value', atMost: 14_500 },
  },
  async prepare() {
    server ??= start();
    const url = await server;
    runs += 1;
    const stream = `plain-${runs}`;
    await NatsTicket.make(url, stream);
    return { where: `${url} ${stream}`, remove: () => NatsTicket.drop(url, stream) };
  },
};
