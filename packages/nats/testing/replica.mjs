// One replica in a process of its own. It works on its own account until told to be quiet, and writes down what it sees
// at once: a process that is killed must not take its history along.
import { openSync, writeSync } from 'node:fs';
import { Recorder, seededRandom } from '@botmesh/core/testing';
import { NatsCoordinator } from '@botmesh/nats';

const { name, history, seed, keys, lanes, leaseMs, namespace, shards, connect, forgets, replicas } = JSON.parse(
  process.argv[2],
);
const random = seededRandom(seed);
const file = openSync(history, 'a');
/** The host's monotonic clock: common to all its processes. */
const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const record = (event) => writeSync(file, `${JSON.stringify(event)}\n`);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const coordinator = new NatsCoordinator({ url: connect, leaseMs, namespace, shards, replicas, replicaId: name });
const recorder = new Recorder(coordinator, { nowMs, record, name });
if (process.env.BOTMESH_FAULTS_VERBOSE !== undefined) {
  const tell = (what, error) =>
    console.error(Date.now() % 1e6, name, what, error?.message, error?.cause?.cause?.message);
  coordinator.on('unavailable', ({ error }) => tell('unavailable', error));
  coordinator.on('available', ({ downMs }) => tell(`available after ${downMs}`));
  coordinator.on('quarantine', ({ cause }) => tell(`quarantine: ${cause}`));
}
let isQuiet = false;
let busy = 0;

/** The planted fault: goes on believing in what was lost. */
function assertHeld(turn) {
  if (!forgets) return turn.assertHeld();
  record({ kind: 'held', at: nowMs(), replica: name, key: turn.key, fence: turn.fence });
}

async function work(ticket, isMessage) {
  const timeoutMs = !isMessage && random() < 0.1 ? 50 : undefined;
  const turn = await recorder.acquireTurn(ticket, timeoutMs === undefined ? {} : { timeoutMs });
  let isDone = false;
  try {
    const steps = forgets ? 200 : 1 + Math.floor(random() * 4);
    for (let step = 0; step < steps; step++) {
      assertHeld(turn);
      await pause(random() * 25);
    }
    assertHeld(turn);
    isDone = random() < 0.95;
  } finally {
    await turn.release(isDone ? {} : { retry: true });
  }
}

/** What goes wrong in one piece of work is in the history, or has no consequence. */
async function during(job) {
  busy += 1;
  try {
    await job();
  } catch (error) {
    if (!['lease-lost', 'unavailable', 'timeout', 'stopped', 'ticket-used'].includes(error?.code)) {
      console.error(`${name}:`, error);
      process.exitCode = 1;
    }
  } finally {
    busy -= 1;
  }
}

async function lane() {
  for (let n = 0; !isQuiet; n++) {
    const key = keys[Math.floor(random() * keys.length)];
    await during(async () => {
      if (random() < 0.5) return work(await recorder.reserve(key), false);
      const ticket = await recorder.accept(key, { id: `${name}-${n}-${random()}`, body: 'text' });
      if (ticket !== null) await work(ticket, true);
    });
    await pause(5 + random() * 30);
  }
}

recorder.onAdopted(({ ticket }) => void during(() => work(ticket, true)));
process.on('message', (message) => {
  if (message === 'quiet') isQuiet = true;
  if (message === 'busy?') process.send?.({ busy });
  if (message === 'stop') void recorder.stop().then(() => process.disconnect());
});
/** As whoever keeps processes running would: until it can join. */
async function start() {
  for (;;) {
    try {
      return await recorder.start();
    } catch (error) {
      if (error?.code !== 'unavailable') throw error;
    }
  }
}

await start();
process.send?.('started');
for (let n = 0; n < lanes; n++) void lane();
