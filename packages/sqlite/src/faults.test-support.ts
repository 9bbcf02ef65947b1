// For the tests of faults: what is done to the files, and replicas whose histories are kept.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findDriver } from './driver.js';
import { hostNowMs, TestProcess } from './process.test-support.js';

export const LEASE_MS = 2_000;
/** `nobody`, everywhere: a user whom permissions bind. */
export const NOBODY = 65_534;

/** An event of a history, as a line of a log has it. */
export interface Recorded {
  readonly kind: string;
  readonly at: number;
  readonly replica: string;
}

/** A folder with what a test needs, and how to be rid of it. */
export class Ground {
  readonly folder = mkdtempSync(join(tmpdir(), 'botmesh-faults-'));
  /** Where the database is: what is done to this folder does not reach the histories. */
  readonly place = join(this.folder, 'data');
  readonly path = join(this.place, 'mesh.db');
  /** As a history tells of them. */
  readonly losses: { readonly kind: 'data-lost'; readonly at: number }[] = [];
  readonly #replicas: { replica: TestProcess; log: string }[] = [];
  readonly #undo: (() => void)[] = [];

  constructor() {
    mkdirSync(this.place);
  }

  spawn(uid?: number): TestProcess {
    const replicaId = `replica-${this.#replicas.length + 1}`;
    const log = join(this.folder, `${replicaId}.log`);
    const options = { path: this.path, replicaId, leaseMs: LEASE_MS, log: uid === undefined ? log : '/dev/null' };
    const replica = new TestProcess('recorded.mjs', [JSON.stringify(options)], uid);
    this.#replicas.push({ replica, log });
    return replica;
  }

  async start(): Promise<TestProcess> {
    const replica = this.spawn();
    await replica.hears('started');
    return replica;
  }

  /** Undone, last first, when the test is over, unless it was before. */
  onEnd(undo: () => void): () => void {
    const once = (): void => {
      const at = this.#undo.indexOf(once);
      if (at !== -1) this.#undo.splice(at, 1);
      undo();
    };
    this.#undo.push(once);
    return once;
  }

  /** Stops all replicas in good order. */
  async stop(): Promise<void> {
    for (const { replica } of this.#replicas) if (replica.child.connected) replica.do('stop');
    await Promise.all(this.#replicas.map(({ replica }) => replica.ended));
  }

  /** What the replicas have recorded up to now. */
  history(): Recorded[] {
    return this.#replicas.flatMap(({ log }) =>
      readFileSync(log, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Recorded),
    );
  }

  async end(): Promise<void> {
    await Promise.all(this.#replicas.map(({ replica }) => replica.kill()));
    for (const undo of [...this.#undo].reverse()) undo();
    rmSync(this.folder, { recursive: true, force: true });
  }

  // ── Losses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The path is another file from now on, or had its log taken: what is in it ends with `keptTo`. */
  noteLoss(keptTo = 0, copiedAt?: number): void {
    const copied = copiedAt === undefined ? {} : { copiedAt };
    // Stamps are microseconds of the wall clock.
    const loss = { at: hostNowMs(), keptTo, lostTo: Date.now() * 1000, ...copied };
    this.losses.push({ kind: 'data-lost', ...loss });
  }

  /** What a power cut would leave now: the file and its log, as they are while all processes stand still. */
  async copy(running: readonly TestProcess[]): Promise<PutBack> {
    for (const { child } of running) child.kill('SIGSTOP');
    const copiedAt = hostNowMs();
    for (const end of ['', '-wal']) copyFileSync(`${this.path}${end}`, join(this.folder, `copy${end}`));
    for (const { child } of running) child.kill('SIGCONT');
    const keptTo = await this.#lastOfCopy();
    return () => {
      for (const end of ['', '-wal']) copyFileSync(join(this.folder, `copy${end}`), `${this.path}.back${end}`);
      for (const end of ['-shm', '-wal']) rmSync(`${this.path}${end}`);
      for (const end of ['-wal', '']) renameSync(`${this.path}.back${end}`, `${this.path}${end}`);
      this.noteLoss(keptTo, copiedAt);
    };
  }

  async #lastOfCopy(): Promise<number> {
    const path = join(this.folder, 'read');
    for (const end of ['', '-wal']) copyFileSync(join(this.folder, `copy${end}`), `${path}${end}`);
    const { open } = await findDriver();
    const database = open(path);
    const last = database.prepare('SELECT last FROM mesh').get()?.last as number;
    database.close();
    return last;
  }
}

/** Puts the copy back under whoever runs. */
export type PutBack = () => void;

/** Runs a command of the system; why not, if it cannot. */
export function attempt(command: string, ...args: string[]): string | undefined {
  try {
    execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    return undefined;
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: Buffer };
    return `${command}: ${stderr?.toString().trim() || message}`;
  }
}
