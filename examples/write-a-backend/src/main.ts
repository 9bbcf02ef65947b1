// Three processes count in one file, each number once. One of them is killed in the middle of its turn.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { DocumentStore } from './DocumentStore.js';
import { FileCoordinator } from './FileCoordinator.js';
import { FileDocument } from './FileDocument.js';

const TURNS = 15;
const LEASE_MS = 2_000;

async function direct(): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'botmesh-'));
  await DocumentStore.create(new FileDocument(join(folder, 'mesh')));
  await writeFile(join(folder, 'count'), '0');

  const victim = fork(fileURLToPath(import.meta.url), [folder, 'holds']);
  await once(victim, 'message');
  const counters = [1, 2].map(() => fork(fileURLToPath(import.meta.url), [folder, 'counts']));
  console.log('one process holds the turn and is killed; two others wait for it');
  victim.kill('SIGKILL');
  const startedMs = performance.now();
  await Promise.all(counters.map((counter) => once(counter, 'exit')));

  const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
  console.log(`counted to ${await readFile(join(folder, 'count'), 'utf8')} of ${2 * TURNS} in ${seconds} s`);
  await rm(folder, { recursive: true });
}

async function hold(folder: string): Promise<void> {
  const coordinator = new FileCoordinator({ folder: join(folder, 'mesh'), leaseMs: LEASE_MS });
  await coordinator.start();
  await coordinator.acquireTurn(await coordinator.reserve('count'));
  process.send?.('held');
}

async function count(folder: string): Promise<void> {
  const coordinator = new FileCoordinator({ folder: join(folder, 'mesh'), leaseMs: LEASE_MS });
  await coordinator.start();
  for (let n = 0; n < TURNS; n++) {
    const turn = await coordinator.acquireTurn(await coordinator.reserve('count'));
    const before = Number(await readFile(join(folder, 'count'), 'utf8'));
    turn.assertHeld();
    await writeFile(join(folder, 'count'), String(before + 1));
    await turn.release();
  }
  await coordinator.stop();
  process.disconnect();
}

const [folder, role] = process.argv.slice(2);
if (folder === undefined) await direct();
else if (role === 'holds') await hold(folder);
else await count(folder);
