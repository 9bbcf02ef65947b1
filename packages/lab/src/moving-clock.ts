import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const SOURCE = fileURLToPath(new URL('../src/moving-clock.c', import.meta.url));
const CACHE = fileURLToPath(new URL('../../../node_modules/.cache/botmesh', import.meta.url));

/** A wall clock of one server, which a test moves. Needs Linux and a C compiler: see {@link whyNoMovingClock}. */
export class MovingClock implements Disposable {
  readonly environment: Readonly<Record<string, string>>;
  readonly #folder = mkdtempSync(join(tmpdir(), 'botmesh-clock-'));
  readonly #file: number;
  #movedMs = 0n;

  constructor() {
    // The servers may run as somebody who cannot read the repository.
    chmodSync(this.#folder, 0o755);
    const preloaded = join(this.#folder, 'moving-clock.so');
    copyFileSync(library(), preloaded);
    const path = join(this.#folder, 'clock');
    this.environment = { LD_PRELOAD: preloaded, MOVING_CLOCK: path };
    this.#file = openSync(path, 'w+');
    this.#write();
  }

  /** How far it is off by now, in milliseconds. */
  get movedMs(): number {
    return Number(this.#movedMs);
  }

  /** Forward, or back when negative; at once, also for a server that runs. */
  move(ms: number): void {
    this.#movedMs += BigInt(Math.round(ms));
    this.#write();
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #write(): void {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(this.#movedMs);
    writeSync(this.#file, bytes, 0, 8, 0);
  }
}

/** Why no server's clock can be moved here; undefined when it can. */
export function whyNoMovingClock(): string | undefined {
  if (process.platform !== 'linux')
    return `The clock of a server can be moved on Linux only, not on ${process.platform}.`;
  try {
    library();
    return undefined;
  } catch (error) {
    return String(error instanceof Error ? error.message : error);
  }
}

/** Compiled once for each version of its source. */
function library(): string {
  const hash = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 12);
  const path = join(CACHE, `moving-clock-${process.arch}-${hash}.so`);
  if (existsSync(path)) return path;
  mkdirSync(CACHE, { recursive: true });
  const own = `${path}.${process.pid}`;
  try {
    execFileSync('gcc', ['-O2', '-shared', '-fPIC', '-o', own, SOURCE], { stdio: 'pipe', timeout: 60_000 });
  } catch (cause) {
    throw new Error('No server clock can be moved: gcc is missing, or does not compile moving-clock.c.', { cause });
  }
  // Another worker may have made it meanwhile: the same file, put in place whole.
  renameSync(own, path);
  return path;
}
