import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkHistory, type HistoryEvent, seededRandom, type Violation } from '@botmesh/core/testing';
import { pause, stateOf, until } from '@botmesh/lab';

/** How one replica reaches the servers: their urls. */
export type Connect = readonly string[];

export interface FleetOptions {
  readonly seed: number;
  readonly leaseMs: number;
  readonly keys?: number;
  readonly shards?: number;
  /** On how many servers the streams are kept. */
  readonly replicas?: number;
  /** For the control: replicas that go on believing in what they have lost. */
  readonly forgets?: boolean;
}

export interface Replica {
  readonly name: string;
  readonly process: ChildProcess;
  readonly connect: Connect;
}

export interface Outcome {
  readonly violations: readonly Violation[];
  readonly granted: number;
  readonly handled: number;
  readonly adopted: number;
  readonly lost: number;
}

export const FLEET_NAMESPACE = 'faults';

const PROGRAM = fileURLToPath(new URL('./replica.mjs', import.meta.url));

/** The host's monotonic clock, which all processes share. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** Replicas in processes of their own, at work on a few keys, and what they saw. */
export class Fleet implements AsyncDisposable {
  readonly random: () => number;
  readonly replicas: Replica[] = [];
  readonly #options: FleetOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'botmesh-fleet-'));
  readonly #told: HistoryEvent[] = [];
  readonly #failed: string[] = [];
  #starts = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.random = seededRandom(options.seed);
  }

  /** Resolves when the replica has joined. */
  async start(connect: Connect): Promise<Replica> {
    const { keys = 4, leaseMs, replicas, seed, shards = 1, forgets = false } = this.#options;
    const number = ++this.#starts;
    const name = `r${number}`;
    const told = {
      name,
      connect,
      leaseMs,
      shards,
      forgets,
      replicas,
      namespace: FLEET_NAMESPACE,
      lanes: 3,
      seed: seed * 1000 + number,
      keys: Array.from({ length: keys }, (_, n) => `chat${n}`),
      history: join(this.#folder, `${name}.jsonl`),
    };
    const child = spawn(process.execPath, [PROGRAM, JSON.stringify(told)], {
      // The servers of the lab give reason for every warning there is.
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    const replica = { name, connect, process: child };
    this.replicas.push(replica);
    child.on('exit', (code) => {
      if (code !== null && code !== 0) this.#failed.push(`${name} ended with ${code}`);
    });
    await new Promise<void>((resolve, reject) => {
      child.once('message', () => resolve());
      child.once('exit', (code, signal) => reject(new Error(`${name} did not start: ${code ?? signal}`)));
    });
    return replica;
  }

  /** Ends it between two instructions. */
  async kill(replica: Replica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    const ended = new Promise((resolve) => replica.process.once('exit', resolve));
    replica.process.kill('SIGKILL');
    await ended;
    this.#told.push({ kind: 'gone', at: nowMs(), replica: replica.name });
  }

  async freezeFor(replica: Replica, ms: number): Promise<void> {
    replica.process.kill('SIGSTOP');
    await pause(ms);
    replica.process.kill('SIGCONT');
  }

  /** Does something while all replicas stand still. */
  async still(act: () => Promise<void>): Promise<void> {
    const processes = this.replicas.map(({ process: child }) => child);
    for (const child of processes) child.kill('SIGSTOP');
    await until('all stand still', () => processes.every(({ pid }) => stateOf(pid!) === 'T'));
    await act().finally(() => {
      for (const child of processes) child.kill('SIGCONT');
    });
  }

  /**
   * Tells the history that the store has lost what it wrote after `keptUntil` (0: all of it), by the common clock. Call it
   * after the loss, before anything can be granted again.
   */
  lostData(keptUntil: number): void {
    const at = nowMs();
    const events = this.events();
    const kept = events.filter((event) => event.at <= keptUntil);
    this.#told.push({
      kind: 'data-lost',
      at,
      keptTo: greatestStamp(kept),
      lostTo: greatestStamp(events.filter(({ kind }) => kind === 'granted')),
      copiedAt: keptUntil,
    });
  }

  events(): HistoryEvent[] {
    const lines = readdirSync(this.#folder).flatMap((file) =>
      readFileSync(join(this.#folder, file), 'utf8').split('\n'),
    );
    // The last line of a killed process may be half a line.
    return [...lines.flatMap((line) => parsed(line)), ...this.#told];
  }

  /** How often a turn was granted so far. */
  get grants(): number {
    return this.events().filter(({ kind }) => kind === 'granted').length;
  }

  /** The replica that was granted a turn last, while it holds it. */
  holder(): Replica | undefined {
    const events = this.events().filter(({ kind }) => kind === 'granted' || kind === 'ended');
    const last = events.reduce<HistoryEvent | undefined>((a, b) => (a === undefined || b.at > a.at ? b : a), undefined);
    if (last?.kind !== 'granted') return undefined;
    return this.replicas.find(({ name }) => name === last.replica);
  }

  /** Waits until grants are made again, whatever happened: the mesh is alive. */
  async isAlive(limitMs: number): Promise<void> {
    const before = this.grants;
    await until('turns are granted again', () => this.grants > before + 3, limitMs);
  }

  /** Waits until there is enough to judge. */
  async hasWorked(limitMs: number): Promise<void> {
    const count = (wanted: HistoryEvent['kind']) => this.events().filter(({ kind }) => kind === wanted).length;
    await until(
      'turns were granted and messages handled',
      () => count('granted') > 20 && count('handled') > 5,
      limitMs,
    );
  }

  /** Ends the work in order, and judges all that happened. Every replica must come to rest within the limit. */
  async finish(limitMs: number): Promise<Outcome> {
    for (const { process: child } of this.replicas) child.send('quiet');
    // What a dead replica left is taken over within a lease and a beat, and what was given back while a server was away after
    // its quarantine and a beat, which is less; what a living one hands over, with the next beat.
    const restMs = this.#told.some(({ kind }) => kind === 'gone' || kind === 'data-lost')
      ? 1.5 * this.#options.leaseMs
      : this.#options.leaseMs / 2;
    let idleSince: number | undefined;
    await until(
      'all replicas are idle',
      async () => {
        const isIdle = (await Promise.all(this.replicas.map(busyIn))).every((busy) => busy === 0);
        if (!isIdle) idleSince = undefined;
        else idleSince ??= nowMs();
        return idleSince !== undefined && nowMs() - idleSince > restMs;
      },
      limitMs,
    );
    await Promise.all(this.replicas.map(({ process: child }) => ended(child)));
    if (this.#failed.length > 0) throw new Error(this.#failed.join(', '));
    const events = this.events();
    const count = (wanted: HistoryEvent['kind']) => events.filter(({ kind }) => kind === wanted).length;
    return {
      violations: checkHistory(events, { finished: true }),
      granted: count('granted'),
      handled: count('handled'),
      adopted: events.filter((event) => event.kind === 'granted' && (event.attempt ?? 1) > 1).length,
      lost: count('lost'),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process: child } of this.replicas) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    }
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function busyIn({ process: child }: Replica): Promise<number> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('a replica has ended'));
    child.once('exit', onExit);
    child.once('message', (answer) => {
      child.off('exit', onExit);
      resolve((answer as { busy: number }).busy);
    });
    child.send('busy?');
  });
}

async function ended(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.send('stop');
  await gone;
}

function greatestStamp(events: readonly HistoryEvent[]): number {
  return events.reduce((greatest, event) => {
    const seq = 'seq' in event ? event.seq : 0;
    const fence = 'fence' in event ? event.fence : 0;
    return Math.max(greatest, seq, fence);
  }, 0);
}

function parsed(line: string): HistoryEvent[] {
  try {
    return [JSON.parse(line) as HistoryEvent];
  } catch {
    return [];
  }
}
