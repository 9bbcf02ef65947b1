import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));
const LONGEST_MS = 60_000;

export interface Ending {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** The built program as a child, with a folder for temporary files of its own. */
export class Program {
  readonly ended: Promise<Ending>;
  readonly #child: ChildProcess;
  readonly #folder = mkdtempSync(join(tmpdir(), 'botmesh-live-test-'));
  readonly #written = { out: '', err: '' };
  #whenWritten: (() => void)[] = [];

  /** With pipes for input and output. */
  static piped(...args: string[]): Program {
    return new Program(process.execPath, [PROGRAM, ...args]);
  }

  /** On a terminal of its own, by the system's `script`: what it shows is output, and its end closes the terminal. */
  static typed(): Program {
    return new Program('script', ['-qec', `'${process.execPath}' '${PROGRAM}'`, '/dev/null']);
  }

  /** As a person starts it. Signals go to npm alone. */
  static byNpm(...args: string[]): Program {
    return new Program('npm', ['start', '--silent', '--', ...args]);
  }

  private constructor(command: string, args: string[]) {
    const env = { ...process.env, TMPDIR: this.#folder };
    this.#child = spawn(command, args, { timeout: LONGEST_MS, env, cwd: ROOT });
    this.#child.stdin?.on('error', () => {});
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#add('out', text));
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => this.#add('err', text));
    this.ended = new Promise((resolve, reject) => {
      this.#child.on('error', reject);
      this.#child.on('close', (code) => resolve({ code, ...this.#written }));
    });
  }

  write(input: string | Uint8Array): this {
    this.#child.stdin?.write(input);
    return this;
  }

  end(input: string | Uint8Array = ''): Promise<Ending> {
    this.#child.stdin?.end(input);
    return this.ended;
  }

  signal(name: NodeJS.Signals): this {
    this.#child.kill(name);
    return this;
  }

  /** What is found in the program's notices, as soon as it is there. Rejects when the program ends without it. */
  notices(what: RegExp): Promise<RegExpExecArray> {
    return this.#found('err', what);
  }

  /** What is found on its standard output: on a terminal, notices as well. */
  shows(what: RegExp): Promise<RegExpExecArray> {
    return this.#found('out', what);
  }

  async #found(where: 'out' | 'err', what: RegExp): Promise<RegExpExecArray> {
    let hasEnded = false;
    void this.ended.then(() => {
      hasEnded = true;
      this.#wake();
    });
    for (;;) {
      const found = what.exec(this.#written[where]);
      if (found !== null) return found;
      if (hasEnded) throw new Error(`the program ended and never said ${what}, but: ${this.#written[where]}`);
      await new Promise<void>((resolve) => this.#whenWritten.push(resolve));
    }
  }

  /** The processes of the replicas, by number. */
  async replicas(): Promise<Map<number, number>> {
    this.write('/status\n');
    await this.notices(/replica 3: \w+, process \d+/);
    const lines = this.#written.err.matchAll(/replica (\d+): \w+, process (\d+)/g);
    return new Map([...lines].map(([, number, pid]) => [Number(number), Number(pid)]));
  }

  /** What it left among the temporary files. */
  get litter(): string[] {
    return readdirSync(this.#folder);
  }

  async clear(): Promise<void> {
    this.#child.kill('SIGTERM');
    await this.ended;
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #add(to: 'out' | 'err', text: string): void {
    this.#written[to] += text;
    this.#wake();
  }

  #wake(): void {
    for (const wake of this.#whenWritten.splice(0)) wake();
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
