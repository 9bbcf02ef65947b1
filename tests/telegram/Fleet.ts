import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { Balancer } from '../cluster/Balancer.js';
import type { Backend, OpenBackend } from '../cluster/backends.js';

const REPLICA = fileURLToPath(new URL('./replica.mjs', import.meta.url));

const SECRET = 'sesame';

export type Framework = 'grammY' | 'Telegraf';

/** One replica in a process of its own. */
export class Replica {
  readonly process: ChildProcess;
  readonly started: Promise<void>;
  /** Resolves with the code or the signal it ended by. */
  readonly gone: Promise<number | string>;
  isGone = false;
  /** Where it takes webhooks, if it does. */
  port: number | undefined;

  constructor(told: object, onElected: (replica: Replica) => void) {
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    this.process = fork(REPLICA, [JSON.stringify(told)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env,
    });
    this.gone = new Promise((resolve) => {
      this.process.once('exit', (code, signal) => {
        this.isGone = true;
        resolve(code ?? signal ?? 'unknown');
      });
    });
    this.started = new Promise((resolve, reject) => {
      this.process.on('message', (told: { started?: true; elected?: true; port?: number }) => {
        this.port = told.port ?? this.port;
        if (told.started) resolve();
        if (told.elected) onElected(this);
      });
      void this.gone.then((how) => reject(new Error(`A replica ended with ${how} before it had started.`)));
    });
    this.started.catch(() => {});
  }

  signal(name: NodeJS.Signals): void {
    this.process.kill(name);
  }
}

/** Replicas of one Telegram bot, the platform before them, and the people who write to it. */
export class Fleet implements AsyncDisposable {
  readonly fake: FakeTelegram;
  readonly leaseMs: number;
  readonly replicas: Replica[] = [];
  /** The replicas that were elected to poll, in order. */
  readonly elected: Replica[] = [];
  readonly #framework: Framework;
  readonly #backend: OpenBackend;
  readonly #balancer: Balancer | undefined;
  /** By chat, how many messages were written. */
  readonly #written = new Map<number, number>();
  #isWriting = false;
  #writing: Promise<void> = Promise.resolve();

  private constructor(
    framework: Framework,
    backend: OpenBackend,
    fake: FakeTelegram,
    leaseMs: number,
    balancer?: Balancer,
  ) {
    this.#balancer = balancer;
    this.#framework = framework;
    this.#backend = backend;
    this.fake = fake;
    this.leaseMs = leaseMs;
  }

  static async open(framework: Framework, backend: Backend, leaseMs: number): Promise<Fleet> {
    return new Fleet(framework, await backend.open(), await FakeTelegram.start(), leaseMs);
  }

  /** The platform posts to a balancer, and that to one replica after the other. */
  static async openWithWebhook(framework: Framework, backend: Backend, leaseMs: number): Promise<Fleet> {
    const fake = await FakeTelegram.start({ redeliverMs: 100 });
    const balancer = await Balancer.start();
    const fleet = new Fleet(framework, await backend.open(), fake, leaseMs, balancer);
    balancer.targets = () => fleet.replicas.filter(({ isGone }) => !isGone).flatMap(({ port }) => port ?? []);
    await fetch(`${fake.apiRoot}/bot${fake.token}/setWebhook?url=${balancer.url}&secret_token=${SECRET}`);
    return fleet;
  }

  get leader(): Replica {
    const leader = this.elected.at(-1);
    if (leader === undefined) throw new Error('Nobody was elected yet.');
    return leader;
  }

  async launch(): Promise<Replica> {
    const { apiRoot, token } = this.fake;
    const told = {
      framework: this.#framework,
      backend: this.#backend.reach,
      replicaId: `replica-${this.replicas.length + 1}`,
      leaseMs: this.leaseMs,
      apiRoot,
      token,
      ...(this.#balancer === undefined ? {} : { secretToken: SECRET }),
    };
    const replica = new Replica(told, (elected) => this.elected.push(elected));
    this.replicas.push(replica);
    await replica.started;
    return replica;
  }

  /** Several people write, each a message every few milliseconds, until `stopWriting`. */
  startWriting(chats: readonly number[], everyMs: number): void {
    this.#isWriting = true;
    this.#writing = (async () => {
      while (this.#isWriting) {
        for (const chat of chats) this.write(chat);
        await new Promise((resolve) => setTimeout(resolve, everyMs));
      }
    })();
  }

  write(chat: number): void {
    const count = (this.#written.get(chat) ?? 0) + 1;
    this.#written.set(chat, count);
    this.fake.say(chat, `${count}`);
  }

  async stopWriting(): Promise<void> {
    this.#isWriting = false;
    await this.#writing;
  }

  /** What each chat should have been told: every message, in order. */
  get expected(): Record<string, string[]> {
    return this.#byChat((count) => Array.from({ length: count }, (_, n) => `${n + 1}`));
  }

  /** What each chat was told, without what it was told again. */
  get told(): Record<string, string[]> {
    return this.#byChat((_count, chat) => [...new Set(this.textsTo(chat))]);
  }

  /** What each chat was told that it had been told before, or out of order. */
  get again(): string[] {
    return [...this.#written.keys()].flatMap((chat) =>
      this.textsTo(chat).filter((text, at, all) => all.slice(0, at).some((earlier) => +earlier >= +text)),
    );
  }

  textsTo(chat: number): string[] {
    return this.fake.textsTo(chat).filter((text) => !text.startsWith('report'));
  }

  async everythingAnswered(): Promise<void> {
    const isDone = (): boolean =>
      [...this.#written].every(([chat, count]) => new Set(this.textsTo(chat)).size === count);
    await this.fake.until('every message is answered', isDone, 60_000);
  }

  /** What the session of each chat remembers. */
  async remembered(): Promise<Record<string, string[]>> {
    for (const chat of this.#written.keys()) this.fake.say(chat, 'report');
    const reports = (chat: number): string[] => this.fake.textsTo(chat).filter((text) => text.startsWith('report'));
    await this.fake.until('every chat has reported', () =>
      [...this.#written.keys()].every((chat) => reports(chat).length > 0),
    );
    return this.#byChat((_count, chat) => reports(chat)[0]!.split(' ').slice(1));
  }

  #byChat<T>(of: (count: number, chat: number) => T): Record<string, T> {
    return Object.fromEntries([...this.#written].map(([chat, count]) => [chat, of(count, chat)]));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stopWriting();
    await Promise.all(
      this.replicas.map((replica) => {
        if (!replica.isGone) replica.signal('SIGKILL');
        return replica.gone;
      }),
    );
    await this.fake.stop();
    await this.#balancer?.stop();
    await this.#backend.close();
  }
}
