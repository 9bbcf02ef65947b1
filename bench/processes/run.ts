import { type ChildProcess, fork } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Load } from './loads.js';
import type { Backend, Subject } from './subject.js';
import type { Order, Outcome, Report, Task } from './tasks.js';

/** How long a process may take for what is no part of the measurement: starting, settling, ending. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 20;
/** A burst in which nothing was handled for so long will not be finished. */
const STALLED_MS = 5_000;

/** What one run came to. */
export interface Run {
  readonly outcomes: readonly Outcome[];
  /** Where the holder was killed: from then to the next turn. */
  readonly crashMs?: number;
}

/** How long a run takes, and how long its processes run before that. */
export interface Times {
  readonly runMs: number;
  readonly warmMs: number;
}

/** Runs one subject under one load, in processes and a place of its own. Rejects when a process fails or hangs. */
export async function run(backend: Backend, subject: Subject, load: Load, { runMs, warmMs }: Times): Promise<Run> {
  const place = await backend.prepare();
  const workers: Worker[] = [];
  try {
    for (let id = 0; id < load.processes; id++) {
      const task = { driver: backend.name, subject: subject.name, id, where: place.where, load, runMs, warmMs };
      workers.push(new Worker(task));
    }
    await Promise.all(workers.map((worker) => worker.hears('ready', PATIENCE_MS)));
    for (const worker of workers) worker.order({ kind: 'warm' });
    await Promise.all(workers.map((worker) => worker.hears('warm', warmMs + PATIENCE_MS)));
    if (load.kind === 'crash') return { outcomes: [], crashMs: await crash(workers) };
    for (const worker of workers) worker.order({ kind: 'go' });
    if (load.kind === 'burst') await allHandled(workers, load.chats * load.perChat);
    const outcomes = await Promise.all(workers.map((worker) => worker.hears('done', runMs + PATIENCE_MS)));
    // All at once, when all are done: who closes early may owe the others their turns.
    await Promise.all(workers.map((worker) => worker.close()));
    return { outcomes };
  } finally {
    await Promise.all(workers.map((worker) => worker.kill()));
    await place.remove();
  }
}

async function crash([holder, waiter]: Worker[]): Promise<number> {
  holder!.order({ kind: 'go' });
  await holder!.hears('started', PATIENCE_MS);
  waiter!.order({ kind: 'go' });
  await waiter!.hears('placed', PATIENCE_MS);
  const killedUs = Number(process.hrtime.bigint()) / 1000;
  void holder!.kill();
  const { atUs } = await waiter!.hears('started', PATIENCE_MS);
  return (atUs - killedUs) / 1000;
}

/** Resolves when so many messages are handled, by whichever process, or none has been for a while. */
async function allHandled(workers: readonly Worker[], expected: number): Promise<void> {
  let handled = -1;
  let movedMs = performance.now();
  while (handled < expected && performance.now() - movedMs < STALLED_MS) {
    await sleep(LOOK_MS);
    const now = workers.reduce((sum, worker) => sum + worker.handled, 0);
    if (now !== handled) movedMs = performance.now();
    handled = now;
  }
  for (const worker of workers) worker.order({ kind: 'enough' });
}

/** A process of a run, seen from its parent. */
class Worker {
  readonly #process: ChildProcess;
  readonly #name: string;
  readonly #exit: Promise<void>;
  readonly #reports = new Map<Report['kind'], Report>();
  #wake = (): void => {};

  constructor(task: Task) {
    this.#name = `${task.driver}, ${task.subject}, ${task.load.name}, process ${task.id}`;
    this.#process = fork(workerFile(), [JSON.stringify(task)], {
      serialization: 'advanced',
      // What is wrong with a server of a bench is meant so.
      execArgv: ['--disable-warning=redis-forgets', ...process.execArgv],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#exit = new Promise((resolve) => this.#process.once('exit', () => resolve()));
    this.#process.on('message', (report: Report) => {
      this.#reports.set(report.kind, report);
      this.#wake();
    });
  }

  /** How many messages it said it has handled. */
  get handled(): number {
    const report = this.#reports.get('handled');
    return report?.kind === 'handled' ? report.count : 0;
  }

  order(order: Order): void {
    // One that has ended is noticed by what it does not report.
    this.#process.send(order, () => {});
  }

  async hears<Kind extends Report['kind']>(kind: Kind, limitMs: number): Promise<Report & { kind: Kind }> {
    const limit = new Promise<'late'>((resolve) => setTimeout(resolve, limitMs, 'late').unref());
    const ended = this.#exit.then(() => 'ended' as const);
    for (;;) {
      const report = this.#reports.get(kind);
      if (report !== undefined) return report as Report & { kind: Kind };
      const woken = new Promise<'woken'>((resolve) => {
        this.#wake = () => resolve('woken');
      });
      const why = await Promise.race([woken, ended, limit]);
      if (why === 'ended') throw new Error(`${this.#name} ended before it was ${kind}.`);
      if (why === 'late') throw new Error(`${this.#name} was not ${kind} within ${limitMs} ms.`);
    }
  }

  async close(): Promise<void> {
    this.order({ kind: 'close' });
    const limit = setTimeout(() => void this.kill(), PATIENCE_MS);
    await this.#exit;
    clearTimeout(limit);
  }

  async kill(): Promise<void> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill('SIGKILL');
    await this.#exit;
  }
}

/** Processes run what is compiled, also where a test runs this file as it is. */
function workerFile(): string {
  const isSource = import.meta.url.endsWith('.ts');
  return fileURLToPath(new URL(isSource ? '../dist/processes/worker.js' : 'worker.js', import.meta.url));
}
