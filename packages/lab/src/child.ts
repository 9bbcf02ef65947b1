import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chownSync, readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { isProgram } from './programs.js';
import { until } from './until.js';

export interface ChildOptions {
  readonly command: readonly string[];
  readonly cwd: string;
  /** Run as root, it gets a user of its own: PostgreSQL refuses to be root. */
  readonly asServer?: boolean;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** What it prints once it works. */
  readonly ready: RegExp;
  readonly limitMs?: number;
}

const SETPRIV = '/usr/bin/setpriv';

/** Whom servers that refuse to be root run as; undefined when we are not root either. */
function serverUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  const line = /^(?:postgres|nobody):[^:]*:(\d+):(\d+):/m.exec(readFileSync('/etc/passwd', 'utf8'));
  if (line === null) throw new Error('Run as root, the tests need a user postgres or nobody for the servers.');
  return { uid: Number(line[1]), gid: Number(line[2]) };
}

/** Where the kernel can do so, a server dies with the test that started it, however that ends. */
export const DIES_WITH_US = isProgram(SETPRIV) ? [SETPRIV, '--pdeathsig', 'KILL'] : [];

/** Lets a folder be that of a server which is not root. */
export function giveAway(folder: string): void {
  const user = serverUser();
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
}

/** Runs a program to its end, as whom such a server runs. */
export async function runAsServer(command: readonly string[], cwd: string): Promise<void> {
  const [program, ...args] = command;
  await promisify(execFile)(program!, args, { cwd, timeout: 60_000, ...serverUser() });
}

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
    const user = options.asServer === true ? serverUser() : undefined;
    // By setpriv itself: the word of the kernel is void once a process becomes another user.
    const isWrapped = DIES_WITH_US.length > 0;
    const become =
      isWrapped && user !== undefined ? [`--reuid=${user.uid}`, `--regid=${user.gid}`, '--clear-groups'] : [];
    const [program, ...args] = [...DIES_WITH_US, ...become, ...options.command];
    const env = { ...process.env, ...options.environment };
    const as = isWrapped ? {} : user;
    this.#process = spawn(program!, args, { cwd: options.cwd, env, stdio: ['ignore', 'pipe', 'pipe'], ...as });
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
  async end(signal: 'SIGTERM' | 'SIGINT' | 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    if (!this.#isRunning) return;
    const family = familyOf(this.pid);
    // The others would see it, and end by themselves; not all of them at once, though.
    if (signal === 'SIGKILL') signalAll(family, signal);
    else this.signal(signal);
    this.thaw();
    const sure = setTimeout(() => this.signal('SIGKILL'), 10_000);
    await this.#ended;
    clearTimeout(sure);
    // Until then its data is in use.
    await until('its processes have ended', () => family.slice(1).every((pid) => stateOf(pid) === undefined));
  }

  /** Resolves when all of its processes really stand still: a signal takes a moment. */
  async freeze(): Promise<void> {
    this.#isFrozen = true;
    signalAll([this.pid], 'SIGSTOP');
    await until(`process ${this.pid} stands still`, () => stateOf(this.pid) === 'T');
    const family = familyOf(this.pid);
    signalAll(family, 'SIGSTOP');
    await until('its processes stand still', () => family.every((pid) => 'TZ'.includes(stateOf(pid) ?? 'Z')));
  }

  thaw(): void {
    this.#isFrozen = false;
    signalAll(familyOf(this.pid).reverse(), 'SIGCONT');
  }
}

function signalAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended meanwhile.
    }
  }
}

/** A process and those that it started. */
function familyOf(pid: number): number[] {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(Number(name)) === pid);
  return [pid, ...children.map(Number)];
}

function parentOf(pid: number): number | undefined {
  const parent = /^\d+ \(.*\) \S (\d+)/.exec(statOf(pid))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

/** Undefined for one that is gone. */
export function stateOf(pid: number): string | undefined {
  const state = /^\d+ \(.*\) (\S)/.exec(statOf(pid))?.[1];
  return state === 'Z' || state === 'X' ? undefined : state;
}

function statOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return '';
  }
}
