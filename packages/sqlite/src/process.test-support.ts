// For the tests of this package: replicas in processes of their own.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Told {
  readonly replicaId: string;
  readonly atMs: number;
  readonly event: string;
  readonly [name: string]: unknown;
}

const PATIENCE_MS = 30_000;

/** A process that runs one of the programs in `testing`, does what it is told, and tells what happens. */
export class TestProcess {
  readonly child: ChildProcess;
  readonly told: Told[] = [];
  readonly ended: Promise<void>;
  readonly #waiting = new Set<() => void>();

  /** `uid`: the user it runs as, who is the group as well. Default: this one. */
  constructor(program: string, args: readonly string[], uid?: number) {
    const path = fileURLToPath(new URL(`../testing/${program}`, import.meta.url));
    const user = uid === undefined ? {} : { uid, gid: uid };
    this.child = fork(path, args, { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'], ...user });
    this.ended = new Promise((resolve) => this.child.once('exit', () => resolve()));
    this.child.on('message', (told) => {
      this.told.push(told as Told);
      for (const wake of [...this.#waiting]) wake();
    });
  }

  do(command: string, rest: object = {}): void {
    this.child.send({ command, ...rest });
  }

  count(event: string): number {
    return this.told.filter((told) => told.event === event).length;
  }

  /** The first thing told, from the `from`th on, that fits. Rejects when it does not come. */
  hears(event: string, fits: (told: Told) => boolean = () => true, from = 0): Promise<Told> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.told.slice(from).find((told) => told.event === event && fits(told));
        if (found === undefined) return;
        this.#waiting.delete(look);
        clearTimeout(timer);
        resolve(found);
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(look);
        reject(new Error(`No '${event}' in time. Told: ${JSON.stringify(this.told.slice(from).slice(-10))}`));
      }, PATIENCE_MS);
      this.#waiting.add(look);
      look();
    });
  }

  /** What it tells next in answer to `command`. */
  async asks(command: string, rest: object, event: string): Promise<Told> {
    const from = this.told.length;
    this.do(command, rest);
    return await this.hears(event, undefined, from);
  }

  async kill(signal: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill(signal);
    await this.ended;
  }
}

/** The host's monotonic clock: common to all its processes. */
export function hostNowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
