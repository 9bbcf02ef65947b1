// A replica whose handler of one message blocks its process for longer than the lease, in a process of its own.
import { SqliteCoordinator } from '@botmesh/sqlite';

const [path, replicaId, leaseMs] = process.argv.slice(2);
const coordinator = new SqliteCoordinator({ path, replicaId, leaseMs: Number(leaseMs), maxAttempts: 3 });
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const tell = (what) => process.send?.({ replicaId, atMs: nowMs(), ...what });
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function handle({ ticket, body, attempt }) {
  const turn = await coordinator.acquireTurn(ticket);
  if (body === 'poison') {
    tell({ event: 'blocks', attempt });
    // What it tells has to leave first.
    await sleep(20);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(leaseMs) * 1.5);
  } else await sleep(20);
  turn.assertHeld();
  await turn.release();
  tell({ event: 'handled', body });
}
const follow = (message) => void handle(message).catch(() => {});
coordinator.onAdopted(follow);
coordinator.on('parked', ({ key, attempts }) => tell({ event: 'parked', key, attempts }));

async function takeAll(count) {
  const bodies = [...Array.from({ length: count }, (_, n) => `${n}`), 'poison'];
  const take = async (body) => ({ ticket: await coordinator.accept(`chat ${body}`, { body }), body, attempt: 1 });
  for (const message of await Promise.all(bodies.map(take))) follow(message);
}
process.on('message', ({ count }) => void takeAll(count));
await coordinator.start();
tell({ event: 'started' });
