import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Balancer } from '../cluster/Balancer.js';
import { type OpenBackend, redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';
import { Diary } from '../cluster/Diary.js';

const WORKER = fileURLToPath(new URL('./worker.mjs', import.meta.url));
const PATIENCE_MS = 60_000;

export interface Rates {
  readonly account: { readonly perSecond: number; readonly burst: number };
  readonly chat: { readonly perSecond: number; readonly burst: number };
}

/** A message of the bot, as the platform took it. */
export interface Sent {
  /** As the test names chats. */
  readonly chat: string;
  readonly text: string;
  readonly atMs: number;
}

/** A fake of a platform, and how a bot gets there. */
export interface Platform {
  /** The package that makes the provider, and its options: plain data. */
  readonly channel: 'slack' | 'telegram' | 'whatsapp';
  readonly settings: object;
  /** As many as are written to at once, by the names of the platform. */
  readonly chats: readonly string[];
  /** Somebody writes. Resolves when the next message of this chat may be written, so that it comes after this one. */
  write(chat: string, text: string): Promise<void>;
  /** All that the platform has taken, in order. */
  sent(): readonly Sent[];
  /** The next sends are taken, and nobody hears so. */
  loseAnswers(times: number): void;
  /** What else must be true in the end. */
  check(): void;
  close(): Promise<void>;
}

/** How to open a platform. It calls `url` where the bot is called. */
export interface PlatformKind {
  readonly name: string;
  open(url: string): Promise<Platform>;
}

export interface Process {
  readonly id: string;
  readonly child: ChildProcess;
  /** Where it takes calls, if it does. */
  readonly port: number | undefined;
  /** With its exit code, or the signal. */
  readonly gone: Promise<unknown>;
}

export interface StageOptions {
  readonly leaseMs: number;
  readonly rates?: Rates;
}

/** A platform, a Redis, and the processes of one bot behind a balancer. */
export class Stage<Of extends Platform = Platform> implements AsyncDisposable {
  readonly platform: Of;
  readonly diary: Diary;
  readonly #options: StageOptions;
  readonly #backend: OpenBackend;
  readonly #balancer: Balancer;
  readonly #folder: string;
  #processes: Process[] = [];
  #launched = 0;

  private constructor(platform: Of, backend: OpenBackend, balancer: Balancer, options: StageOptions) {
    this.platform = platform;
    this.#backend = backend;
    this.#balancer = balancer;
    this.#options = options;
    this.#folder = mkdtempSync(join(tmpdir(), 'botmesh-channel-'));
    this.diary = new Diary(join(this.#folder, 'diary.jsonl'));
    balancer.targets = () => this.#processes.flatMap(({ port }) => port ?? []);
  }

  static async open<Of extends Platform>(
    kind: { open(url: string): Promise<Of> },
    options: StageOptions,
  ): Promise<Stage<Of>> {
    const [backend, balancer] = await Promise.all([redis.open(), Balancer.start()]);
    const stage = new Stage(await kind.open(balancer.url), backend, balancer, options);
    await Promise.all([stage.launch(), stage.launch(), stage.launch()]);
    return stage;
  }

  get living(): readonly Process[] {
    return this.#processes;
  }

  /** Who has the one connection; where there is none, any. */
  get first(): Process {
    const elected = this.diary.read().filter(({ event }) => event === 'elected');
    return this.#processes.find(({ id }) => id === elected.at(-1)?.replicaId) ?? this.#processes[0]!;
  }

  async launch(): Promise<void> {
    const { reach } = this.#backend;
    if (reach.kind !== 'redis') throw new Error('expected a Redis');
    const { channel, settings } = this.platform;
    const id = `replica-${++this.#launched}`;
    const told = { ...this.#options, replicaId: id, diary: this.diary.path, redisUrl: reach.url, channel, settings };
    const child = fork(WORKER, [JSON.stringify(told)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    const gone = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
    const early = gone.then((how) =>
      Promise.reject(new Error(`${id} ended with ${String(how)} before it had started.`)),
    );
    const started = new Promise<{ port?: number }>((resolve) =>
      child.once('message', resolve as (told: unknown) => void),
    );
    const { port } = await Promise.race([started, early]);
    this.#processes.push({ id, child, port, gone });
  }

  /** Ends one, and has another one in its place. The balancer hears of it when it is gone. Resolves with how it ended. */
  async replace(old: Process, signal: 'SIGKILL' | 'SIGTERM'): Promise<unknown> {
    old.child.kill(signal);
    const [how] = await Promise.all([old.gone, this.launch()]);
    this.#processes = this.#processes.filter((each) => each !== old);
    return how;
  }

  /** Resolves when the platform has taken so many more messages. */
  async answered(more: number): Promise<void> {
    const enough = this.platform.sent().length + more;
    await this.until('more is answered', () => this.platform.sent().length >= enough);
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const untilMs = Date.now() + PATIENCE_MS;
    while (!holds()) {
      if (Date.now() > untilMs) throw new Error(`After ${PATIENCE_MS} ms not so: ${what}.`);
      await pause(20);
    }
  }

  /**
   * Waits until so many messages have ended, or nothing is noted any more: a process that dies, or is counted as dead, between
   * an end and its note tells of none.
   */
  async comesToRest(messages: number): Promise<void> {
    let [count, sinceMs] = [0, Date.now()];
    await this.until('all are at rest', () => {
      const lines = this.diary.read();
      if (lines.length !== count) [count, sinceMs] = [lines.length, Date.now()];
      const ended = lines.filter(({ event }) => event === 'ended').map(({ chat, id }) => `${chat} ${id}`);
      return new Set(ended).size === messages || Date.now() - sinceMs > 2 * this.#options.leaseMs;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#processes.map(async ({ child, gone }) => {
        child.kill('SIGKILL');
        await gone;
      }),
    );
    await this.platform.close();
    await this.#balancer.stop();
    this.diary.close();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.#backend.close();
  }
}
