// One process of a run: opens a subject, submits messages, tells what it saw.
import { setTimeout as sleep } from 'node:timers/promises';
import { Counted } from './Counted.js';
import { LoopWatch } from './LoopWatch.js';
import type { Load } from './loads.js';
import type { Backend, Line } from './subject.js';
import { TurnLog } from './TurnLog.js';
import type { Order, Report, Task } from './tasks.js';

/** How long the messages that are still on their way may take, once no more are made. */
const SETTLE_MS = 10_000;
const LOOK_MS = 100;
/** How often a burst is asked for how far it is. */
const BURST_LOOK_MS = 20;
const WARM_CHATS = 100;
/** The share of a run that is not counted: its start, in which all make their first messages at once; where turns are held, until all are. */
const UNCOUNTED = { closed: 0.1, paced: 0.1, crash: 0.1, held: 0.5, burst: 0 };
const WARM_OUTSTANDING = 8;

const task = JSON.parse(process.argv[2]!) as Task;
const { load, runMs, warmMs, id } = task;
const log = new TurnLog();
const errors: string[] = [];
const numbers = new Uint32Array(Math.max(1, load.chats));
const line = await open(task);
let submitted = 0;
let counted: Counted | undefined;
let enough = (): void => {};

process.on('message', (order: Order) => void obey(order));
// Whoever started this is gone.
process.on('disconnect', () => process.exit());
tell({ kind: 'ready' });

async function open({ driver, subject: name, where }: Task): Promise<Line> {
  const { backend } = (await import(`./drivers/${driver}.js`)) as { backend: Backend };
  const subject = backend.subjects.find((each) => each.name === name);
  if (subject === undefined) throw new Error(`${driver} has no subject ${name}.`);
  return subject.open({ id, where, handle });
}

async function obey({ kind }: Order): Promise<void> {
  if (kind === 'warm') return warm();
  if (kind === 'go') return measure();
  if (kind === 'enough') return enough();
  await Promise.race([line.close(), sleep(2_000)]);
  process.exit();
}

/** Cold code says nothing about a bot that runs for weeks. */
async function warm(): Promise<void> {
  const untilMs = performance.now() + warmMs;
  const message = { note: '', placed: () => {}, handle: async () => {} };
  const one = async (): Promise<void> => {
    while (performance.now() < untilMs) await line.submit(`warm-${Math.floor(Math.random() * WARM_CHATS)}`, message);
  };
  await Promise.all(Array.from({ length: WARM_OUTSTANDING }, one));
  tell({ kind: 'warm' });
}

async function measure(): Promise<void> {
  const watch = new LoopWatch(load.kind === 'held' ? 25 : 2);
  const startedMs = performance.now();
  const untilMs = startedMs + runMs;
  counted = new Counted(
    startedMs + UNCOUNTED[load.kind] * runMs,
    load.kind === 'burst' ? Number.POSITIVE_INFINITY : untilMs,
  );
  const timer = setInterval(look, LOOK_MS);
  await (load.kind === 'burst' ? burst(load) : Promise.race([run(load, untilMs), sleep(runMs + SETTLE_MS)]));
  clearInterval(timer);
  const count = counted.end(performance.now(), log.count);
  tell({ kind: 'done', turns: log.packed(), submitted, count, blockMs: watch.end(), errors });
}

function look(): void {
  counted?.look(performance.now(), log.count);
}

/** Resolves when all that was submitted is handled. */
function run(load: Exclude<Load, { kind: 'burst' }>, untilMs: number): Promise<unknown> {
  switch (load.kind) {
    case 'closed':
      return Promise.all(Array.from({ length: load.outstanding }, () => call(load, untilMs)));
    case 'paced':
      return pace(load, untilMs);
    case 'held':
      return hold(load, untilMs);
    case 'crash':
      return die();
  }
}

async function call({ chats }: Load & { kind: 'closed' }, untilMs: number): Promise<void> {
  while (performance.now() < untilMs) {
    await submit(Math.floor(Math.random() * chats), handlerOf(load));
  }
}

/** Resolves when the parent has seen enough: some subjects give a message to the other process. */
async function burst({ chats, perChat, processes }: Load & { kind: 'burst' }): Promise<void> {
  const timer = setInterval(() => tell({ kind: 'handled', count: log.count }), BURST_LOOK_MS);
  for (let number = id; number < perChat * chats; number += processes) void submit(number % chats, handlerOf(load));
  await new Promise<void>((resolve) => {
    enough = resolve;
  });
  clearInterval(timer);
}

async function pace({ chats, perSecond, processes }: Load & { kind: 'paced' }, untilMs: number): Promise<void> {
  const everyMs = (1000 * processes) / perSecond;
  const handled: Promise<void>[] = [];
  let dueMs = performance.now() + (everyMs * id) / processes;
  while (dueMs < untilMs) {
    const leftMs = dueMs - performance.now();
    if (leftMs > 0) await sleep(leftMs);
    handled.push(submit(Math.floor(Math.random() * chats), () => undefined));
    dueMs += everyMs;
  }
  await Promise.all(handled);
}

async function hold({ chats, processes }: Load & { kind: 'held' }, untilMs: number): Promise<void> {
  const held = [sleep(untilMs - performance.now())];
  for (let chat = id; chat < chats; chat += processes) {
    held.push(submit(chat, () => sleep(untilMs - performance.now())));
  }
  await Promise.all(held);
}

/** The first process takes the chat and never lets go; the others tell when they have it. */
async function die(): Promise<void> {
  await submit(
    0,
    () => {
      tell({ kind: 'started', atUs: nowUs() });
      return id === 0 ? new Promise(() => {}) : undefined;
    },
    () => tell({ kind: 'placed' }),
  );
}

/** What is done in a turn; undefined when it is done at once. */
type Handler = () => Promise<unknown> | undefined;

function handlerOf(load: Load): Handler {
  const handlerMs = 'handlerMs' in load ? load.handlerMs : 0;
  return () => (handlerMs === 0 ? undefined : sleep(handlerMs));
}

/** Handles a message that was submitted here or in another process. */
async function handle(note: string): Promise<void> {
  if (note === '') return;
  const [chat, from, number, calledUs] = JSON.parse(note) as [number, number, number, number];
  const startedUs = nowUs();
  await handlerOf(load)();
  log.add({ chat, from, number, fence: 0, calledUs, placedUs: 0, startedUs, endedUs: nowUs() });
  look();
}

async function submit(chat: number, handler: Handler, onPlaced?: () => void): Promise<void> {
  numbers[chat]! += 1;
  submitted += 1;
  const number = numbers[chat]!;
  const calledUs = nowUs();
  let placedUs = 0;
  const own = async (fence = 0): Promise<void> => {
    const startedUs = nowUs();
    const handled = handler();
    if (handled !== undefined) await handled;
    log.add({ chat, from: id, number, fence, calledUs, placedUs, startedUs, endedUs: nowUs() });
    look();
  };
  const placed = (): void => {
    placedUs = nowUs();
    onPlaced?.();
  };
  try {
    await line.submit(`chat-${chat}`, {
      get note() {
        return JSON.stringify([chat, id, number, calledUs]);
      },
      placed,
      handle: own,
    });
  } catch (error) {
    if (errors.length < 5) errors.push(String(error));
    // What fails at once must not spin.
    await sleep(10);
  }
}

function nowUs(): number {
  return Number(process.hrtime.bigint()) / 1000;
}

function tell(report: Report): void {
  process.send?.(report);
}
