// One replica in a process of its own. It works on its own account until told to be quiet, and writes down what it sees
// at once: a process that is killed must not take its history along.
import { openSync, writeSync } from 'node:fs';
import type { ChatTurn, Ticket } from '@botmesh/core/spi';
import { type HistoryEvent, Recorder, seededRandom } from '@botmesh/core/testing';
import type { OpenCoordinator } from '../clients/client.js';
import { nowMs } from '../now.js';
import { pause } from '../until.js';
import type { Connect, Told } from './told.js';

const told = JSON.parse(process.argv[2]!) as Told;
const { name, keys, lanes, forgets } = told;
const random = seededRandom(told.seed);
const file = openSync(told.history, 'a');
const record = (event: HistoryEvent): unknown => writeSync(file, `${JSON.stringify(event)}\n`);

const { open } = (await import(`../clients/${told.backend}.js`)) as { open: OpenCoordinator<Connect> };
const recorder = new Recorder(await open(told.connect, told.coordinator), { nowMs, record, name });
let isQuiet = false;
let busy = 0;

function assertHeld(turn: ChatTurn): void {
  if (!forgets) turn.assertHeld();
  else record({ kind: 'held', at: nowMs(), replica: name, key: turn.key, fence: turn.fence });
}

async function work(ticket: Ticket, isMessage: boolean): Promise<void> {
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

const EXPECTED: unknown[] = ['lease-lost', 'unavailable', 'timeout', 'stopped', 'ticket-used'];
const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code;

/** What goes wrong in one piece of work is in the history, or has no consequence. */
async function during(job: () => Promise<void>): Promise<void> {
  busy += 1;
  try {
    await job();
  } catch (error) {
    if (!EXPECTED.includes(codeOf(error))) {
      console.error(`${name}:`, error);
      process.exitCode = 1;
    }
  } finally {
    busy -= 1;
  }
}

async function lane(): Promise<void> {
  for (let n = 0; !isQuiet; n++) {
    const key = keys[Math.floor(random() * keys.length)]!;
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
async function start(): Promise<void> {
  for (;;) {
    try {
      return await recorder.start();
    } catch (error) {
      if (codeOf(error) !== 'unavailable') throw error;
    }
  }
}

await start();
process.send?.('started');
for (let n = 0; n < lanes; n++) void lane();
