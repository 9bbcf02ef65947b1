import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { checkHistory, type HistoryEvent, seededRandom, type Violation } from '@botmesh/core/testing';
import { DIES_WITH_US } from '../child.js';
import { nowMs } from '../now.js';
import { pause, until } from '../until.js';
import { Histories } from './Histories.js';
import { Holders } from './Holders.js';
import type { Connect, Told } from './told.js';

/** What to put before a replica's command, such as the network it is to run in. */
export type Wrap = readonly string[];

export interface FleetOptions {
  /** Which file of `clients/` opens a replica's coordinator. */
  readonly backend: string;
  /** More options of the coordinator, as JSON. */
  readonly coordinator?: Readonly<Record<string, unknown>>;
  readonly seed: number;
  readonly leaseMs: number;
  readonly keys?: number;
  readonly shards?: number;
  /** Pieces of work that each replica does at once. Default 3. */
  readonly lanes?: number;
  /** Some turns last up to so long, the others a moment. Default: none. */
  readonly longTurnMs?: number;
  /** Of the replicas' processes. */
  readonly environment?: Readonly<Record<string, string>>;
  /** For the control: replicas that go on believing in what they have lost. */
  readonly forgets?: boolean;
}

export interface Replica {
  readonly name: string;
  readonly process: ChildProcess;
  readonly connect: Connect;
}

/** The store lost at `at` what it had not kept by `keptUntil`. */
interface Loss {
  readonly at: number;
  readonly keptUntil: number;
}

export interface Outcome {
  readonly violations: readonly Violation[];
  readonly granted: number;
  readonly handled: number;
  /** Messages that another replica than the first took up. */
  readonly adopted: number;
  /** Places that were refused. */
  readonly lost: number;
}

/** For a replica to stop in order and its process to end, on a machine that does much else. */
const END_MS = 60_000;

/** A process runs what is built, also where a test runs the sources. */
const PROGRAM = fileURLToPath(new URL('../../dist/fleet/replica.js', import.meta.url));

/** Replicas in processes of their own, at work on a few keys, and what they saw. */
export class Fleet implements AsyncDisposable {
  readonly random: () => number;
  readonly replicas: Replica[] = [];
  readonly #options: FleetOptions;
  readonly #folder = mkdtempSync(join(tmpdir(), 'botmesh-fleet-'));
  readonly #histories = new Histories(this.#folder);
  readonly #holders = new Holders();
  readonly #children = new Set<ChildProcess>();
  readonly #gone: HistoryEvent[] = [];
  readonly #losses: Loss[] = [];
  readonly #failed: string[] = [];
  #starts = 0;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.random = seededRandom(options.seed);
  }

  /** Resolves when the replica has joined. */
  async start(connect: Connect, wrap: Wrap = []): Promise<Replica> {
    const { backend, coordinator, keys = 4, leaseMs, seed, shards } = this.#options;
    const { environment, forgets = false, lanes = 3, longTurnMs = 0 } = this.#options;
    const number = ++this.#starts;
    const name = `r${number}`;
    const told: Told = {
      name,
      backend,
      connect,
      coordinator: {
        ...coordinator,
        leaseMs,
        namespace: 'faults',
        replicaId: name,
        ...(shards === undefined ? {} : { shards }),
      },
      forgets,
      lanes,
      longTurnMs,
      seed: seed * 1000 + number,
      keys: Array.from({ length: keys }, (_, n) => `chat${n}`),
      history: join(this.#folder, `${name}.jsonl`),
    };
    const [command, ...args] = [...DIES_WITH_US, ...wrap, process.execPath, PROGRAM, JSON.stringify(told)];
    const child = spawn(command!, args, {
      // The servers of the lab give reason for every warning there is.
      env: { ...process.env, NODE_NO_WARNINGS: '1', ...environment },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#children.add(child);
    child.on('exit', (code) => {
      this.#children.delete(child);
      if (code !== null && code !== 0) this.#failed.push(`${name} ended with ${code}`);
    });
    await new Promise<void>((resolve, reject) => {
      child.once('message', () => resolve());
      child.once('exit', (code, signal) => reject(new Error(`${name} did not start: ${code ?? signal}`)));
    });
    const replica = { name, connect, process: child };
    this.replicas.push(replica);
    return replica;
  }

  /** Ends it in order, in the midst of its work. */
  async stop(replica: Replica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    await ended(replica.process);
  }

  /** Ends it between two instructions. */
  async kill(replica: Replica): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    const ended = new Promise((resolve) => replica.process.once('exit', resolve));
    replica.process.kill('SIGKILL');
    await ended;
    this.#gone.push({ kind: 'gone', at: nowMs(), replica: replica.name });
  }

  async freezeFor(replica: Replica, ms: number): Promise<void> {
    replica.process.kill('SIGSTOP');
    await pause(ms);
    replica.process.kill('SIGCONT');
  }

  /**
   * Tells the history that the store may have lost what was answered after `keptUntil` (0: all of it), by the common clock.
   * Call it after the loss, before anything can be granted again.
   */
  lostData(keptUntil: number): void {
    this.#losses.push({ at: nowMs(), keptUntil });
  }

  events(): HistoryEvent[] {
    const seen = this.#histories.read();
    const losses = this.#losses.map((loss) => this.#told(loss, seen));
    return [...seen, ...this.#gone, ...losses];
  }

  /** Of the old store are the grants of the next moments: the new one makes none before the trust in the old is over. */
  #told({ at, keptUntil }: Loss, events: readonly HistoryEvent[]): HistoryEvent {
    const isOfOld = (event: HistoryEvent): boolean =>
      event.kind === 'granted' && event.at <= at + this.#options.leaseMs / 2;
    return {
      kind: 'data-lost',
      at,
      keptTo: greatestStamp(events.filter((event) => event.at <= keptUntil)),
      lostTo: greatestStamp(events.filter(isOfOld)),
      copiedAt: keptUntil,
    };
  }

  /** How often a turn was granted so far. */
  get grants(): number {
    return this.#histories.read().filter(({ kind }) => kind === 'granted').length;
  }

  /** Of the replicas that hold a turn, the one that was granted it last. */
  holder(): Replica | undefined {
    this.#holders.read(this.#histories.read());
    for (const holder of this.#holders.names) {
      const replica = this.replicas.find(({ name }) => name === holder);
      if (replica !== undefined) return replica;
    }
    return undefined;
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

  /**
   * Ends the work in order, and judges all that happened. Every replica must come to rest within the limit. A message that
   * nobody has taken up counts as lost when half of the limit is over, not before.
   */
  async finish(limitMs: number): Promise<Outcome> {
    for (const { process: child } of this.replicas) child.send('quiet');
    // What a dead replica left is taken over within a lease and a beat, and what was given back while a server was away after
    // its quarantine and a beat, which is less.
    const isHarmed = this.#gone.length + this.#losses.length > 0;
    const restMs = (isHarmed ? 1.5 : 1.1) * this.#options.leaseMs;
    // It is more where heartbeats are late: each gap takes the right to declare a death for another lease (R2).
    const lateUntil = nowMs() + limitMs / 2;
    let idleSince: number | undefined;
    await until(
      'all replicas are idle',
      async () => {
        const isIdle = (await Promise.all(this.replicas.map(busyIn))).every((busy) => busy === 0);
        if (!isIdle) idleSince = undefined;
        else idleSince ??= nowMs();
        const isAtRest = idleSince !== undefined && nowMs() - idleSince > restMs;
        return isAtRest && (nowMs() > lateUntil || !this.#hasOpenMessages());
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

  /** Whether a message was neither handled to its end nor lost with the store's data. */
  #hasOpenMessages(): boolean {
    return checkHistory(this.events(), { finished: true }).some(({ rule }) => rule === 'message-lost');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      const gone = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await gone;
    }
    this.#histories[Symbol.dispose]();
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
  let isGone = false;
  child.once('exit', () => (isGone = true));
  child.send('stop');
  await until(`process ${child.pid} has stopped, and ended by itself`, () => isGone, END_MS);
}

function greatestStamp(events: readonly HistoryEvent[]): number {
  return events.reduce((greatest, event) => {
    const seq = 'seq' in event ? event.seq : 0;
    const fence = 'fence' in event ? event.fence : 0;
    return Math.max(greatest, seq, fence);
  }, 0);
}
