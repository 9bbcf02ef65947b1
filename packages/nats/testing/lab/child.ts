import { type ChildProcess, spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { isProgram } from './programs.js';
import { until } from './until.js';

export interface ChildOptions {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** What it prints once it works. */
  readonly ready: RegExp;
  readonly limitMs?: number;
}

/** Where the kernel can do so, a server dies with the test that started it, however that ends. */
const DIES_WITH_US = isProgram('/usr/bin/setpriv') ? ['/usr/bin/setpriv', '--pdeathsig', 'KILL'] : [];

const running = new Set<Child>();
process.on('exit', () => {
  for (const child of running) child.signal('SIGKILL');
});

/** A server process of ours: started when it said that it is ready, ended when it is gone. */
export class Child {
  readonly #process: ChildProcess;
  readonly #ended: Promise<void>;
  #isRunning = true;
  #isFrozen = false;
  #said = '';

  private constructor(options: ChildOptions) {
    const [program, ...args] = [...DIES_WITH_US, ...options.command];
    const env = { ...process.env, ...options.environment };
    this.#process = spawn(program!, args, { cwd: options.cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const output of [this.#process.stdout, this.#process.stderr]) {
      output?.on('data', (text: Buffer) => {
        this.#said = (this.#said + String(text)).slice(-8000);
      });
    }
    running.add(this);
    this.#ended = new Promise((resolve) => {
      const end = () => {
        this.#isRunning = false;
        running.delete(this);
        resolve();
      };
      this.#process.on('exit', end);
      this.#process.on('error', (error) => {
        this.#said += String(error);
        end();
      });
    });
  }

  /** Rejects with what it said when it ends, or is not ready in time; nothing runs then. */
  static async start(options: ChildOptions): Promise<Child> {
    const child = new Child(options);
    try {
      await until(
        `${options.command[0]} is ready`,
        () => !child.#isRunning || options.ready.test(child.#said),
        options.limitMs,
      );
      if (!child.#isRunning) throw new Error(`${options.command.join(' ')} ended`);
    } catch (cause) {
      await child.end('SIGKILL');
      throw new Error(`${options.command[0]} did not start. It said:\n${child.#said}`, { cause });
    }
    return child;
  }

  get pid(): number {
    return this.#process.pid!;
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  get isFrozen(): boolean {
    return this.#isFrozen;
  }

  /** The last it printed. */
  get said(): string {
    return this.#said;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /** Sends the signal, and resolves when the process is gone. One that is frozen wakes to hear it. */
  async end(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    if (!this.#isRunning) return;
    this.signal(signal);
    this.signal('SIGCONT');
    const sure = setTimeout(() => this.signal('SIGKILL'), 5000);
    await this.#ended;
    clearTimeout(sure);
  }

  /** Resolves when it really stands still: a signal takes a moment. */
  async freeze(): Promise<void> {
    this.#isFrozen = true;
    this.signal('SIGSTOP');
    await until(`process ${this.pid} stands still`, () => stateOf(this.pid) === 'T');
  }

  thaw(): void {
    this.#isFrozen = false;
    this.signal('SIGCONT');
  }
}

/** As the kernel names it: `T` for one that stands still. */
export function stateOf(pid: number): string | undefined {
  return /^\d+ \(.*\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
}
