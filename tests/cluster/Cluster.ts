import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Backend, OpenBackend } from './backends.js';
import { Diary, type Noted } from './Diary.js';

const WORKER = fileURLToPath(new URL('./worker.mjs', import.meta.url));
/** Longer than anything takes on a busy machine: whoever waits for more waits for ever. */
const PATIENCE_MS = 60_000;
const LOOK_MS = 10;
/** A platform that hears nothing delivers again, elsewhere. */
const REDELIVER_MS = 1_500;

/** A message as the platform delivers it. `raw` tells the handler what to do, at its first attempt. */
export interface Delivery {
  readonly chat: string;
  readonly id: string;
  /** `ms`: how long to work. `blockMs`: how long to block the event loop. `holdMs`: how long the reply is on its way. */
  readonly raw?: { readonly ms?: number; readonly blockMs?: number; readonly holdMs?: number };
}

export interface ClusterOptions {
  readonly leaseMs: number;
  readonly drainMs?: number;
  readonly isExclusive?: boolean;
  /** The processes have no bot, and take turns of keys instead. */
  readonly hasRounds?: boolean;
  /** The provider has these accounts, with a connection each. */
  readonly accounts?: readonly string[];
  readonly balanceMs?: number;
  /** The bot has a schedule, due each so many milliseconds. */
  readonly tickMs?: number;
  /** For the control: each process is a mesh of its own, though all keep the state of chats in one place. */
  readonly isApart?: boolean;
}

interface Answer {
  readonly started?: true;
  readonly call: number;
  readonly value?: unknown;
  readonly refused?: string;
}

/** One replica in a process of its own. */
export class Replica {
  readonly id: string;
  readonly process: ChildProcess;
  readonly started: Promise<void>;
  /** Resolves with the code or the signal it ended by. */
  readonly gone: Promise<number | string>;
  isGone = false;
  isFrozen = false;
  readonly #diary: Diary;
  readonly #asked = new Map<number, (answer: Answer) => void>();
  #calls = 0;

  constructor(id: string, told: object, diary: Diary) {
    this.id = id;
    this.#diary = diary;
    const argument = JSON.stringify({ ...told, replicaId: id, diary: diary.path });
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    this.process = fork(WORKER, [argument], { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env });
    this.gone = new Promise((resolve) => {
      this.process.once('exit', (code, signal) => {
        this.isGone = true;
        for (const [call, answer] of this.#asked) answer({ call, refused: 'gone' });
        resolve(code ?? signal ?? 'unknown');
      });
    });
    this.started = new Promise((resolve, reject) => {
      this.process.on('message', (answer: Answer) => {
        if (answer.started) resolve();
        else this.#asked.get(answer.call)?.(answer);
      });
      void this.gone.then((how) => reject(new Error(`${id} ended with ${how} before it had started.`)));
    });
    // Whoever launches it waits; one that is killed while it starts is nobody's error.
    this.started.catch(() => {});
  }

  /** Runs a call of the worker: its value, or why it was refused. */
  async call(name: string, args: object): Promise<Answer> {
    const call = ++this.#calls;
    if (this.isGone || !this.process.connected) return { call, refused: 'gone' };
    const answer = new Promise<Answer>((resolve) => this.#asked.set(call, resolve));
    this.process.send({ call, name, args }, () => {});
    return answer.finally(() => this.#asked.delete(call));
  }

  /** `accepted`, `duplicate`, or why it was not taken in. */
  async deliver({ chat, id, raw = {} }: Delivery): Promise<string> {
    const { value, refused } = await this.call('deliver', { chat, id, text: id, raw });
    return refused ?? String(value);
  }

  /** It runs nothing from here on. The diary has the moment. */
  kill(): Promise<number | string> {
    if (this.isGone) return this.gone;
    this.process.kill('SIGKILL');
    this.#diary.note(this.id, 'killed');
    return this.gone;
  }

  /** Asks it to end in good order. */
  end(signal: 'SIGTERM' | 'SIGINT' = 'SIGTERM'): Promise<number | string> {
    this.process.kill(signal);
    return this.gone;
  }

  freeze(): void {
    this.isFrozen = true;
    this.process.kill('SIGSTOP');
    this.#diary.note(this.id, 'frozen');
  }

  thaw(): void {
    this.isFrozen = false;
    this.#diary.note(this.id, 'thawed');
    this.process.kill('SIGCONT');
  }
}

/** Replicas of one bot in processes of their own, the platform in front of them, and what they noted. */
export class Cluster implements AsyncDisposable {
  readonly diary: Diary;
  readonly folder: string;
  readonly replicas: Replica[] = [];
  readonly #backend: OpenBackend;
  readonly #options: ClusterOptions;
  #keepsFolder = false;
  #deliveries = 0;

  private constructor(backend: OpenBackend, options: ClusterOptions) {
    this.#backend = backend;
    this.#options = options;
    this.folder = mkdtempSync(join(tmpdir(), 'botmesh-cluster-'));
    this.diary = new Diary(join(this.folder, 'diary.jsonl'));
  }

  static async open(backend: Backend, options: ClusterOptions): Promise<Cluster> {
    return new Cluster(await backend.open(), options);
  }

  get leaseMs(): number {
    return this.#options.leaseMs;
  }

  get living(): Replica[] {
    return this.replicas.filter(({ isGone }) => !isGone);
  }

  /** Resolves when the replica takes messages in, or stands by. */
  async launch(): Promise<Replica> {
    const told = { drainMs: 5_000, isExclusive: false, ...this.#options, backend: this.#backend.reach };
    const replica = new Replica(`replica-${this.replicas.length + 1}`, told, this.diary);
    this.replicas.push(replica);
    await replica.started;
    return replica;
  }

  async launchMany(count: number): Promise<Replica[]> {
    return Promise.all(Array.from({ length: count }, () => this.launch()));
  }

  /** Delivers to one replica after the other until one has taken the message in, as a platform does. */
  async deliver(message: Delivery, first?: Replica): Promise<void> {
    const untilMs = Date.now() + PATIENCE_MS;
    let to = first;
    while (Date.now() < untilMs) {
      to ??= this.#next();
      const answer = to === undefined ? 'nobody' : await within(REDELIVER_MS, to.deliver(message));
      if (answer === 'accepted' || answer === 'duplicate') return;
      to = undefined;
      await pause(LOOK_MS);
    }
    throw new Error(`Nobody took message ${message.id} of ${message.chat} in.`);
  }

  /** Waits until `holds`; the diary is read before each look. */
  async until(what: string, holds: (lines: readonly Noted[]) => boolean, limitMs = PATIENCE_MS): Promise<void> {
    const untilMs = Date.now() + limitMs;
    while (!holds(this.diary.read())) {
      if (Date.now() > untilMs) {
        const last = this.diary
          .read()
          .slice(-12)
          .map((line) => JSON.stringify(line));
        throw new Error(`After ${limitMs} ms not so: ${what}. The last that was noted:\n${last.join('\n')}`);
      }
      await pause(LOOK_MS);
    }
  }

  /** The living replicas that have the one connection of an exclusive provider. */
  get connected(): Replica[] {
    const open = new Set<string>();
    for (const { event, replicaId } of this.diary.read()) {
      if (event === 'connected') open.add(replicaId);
      else if (event === 'closed' || event === 'killed') open.delete(replicaId);
    }
    return this.living.filter(({ id }) => open.has(id));
  }

  noted(event: string, of: Partial<Noted> = {}): Noted[] {
    return this.diary.read().filter((line) => line.event === event && fits(line, of));
  }

  /** The ids of what was noted of a chat, in order. */
  ids(event: string, chat: string): (string | undefined)[] {
    return this.noted(event, { chat }).map(({ id }) => id);
  }

  /** The replies a chat was sent, in order. */
  texts(chat: string): (string | undefined)[] {
    return this.noted('sent', { chat }).map(({ text }) => text);
  }

  /** Leaves the diary where it is, and says where. */
  keep(): string {
    this.#keepsFolder = true;
    return this.diary.path;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.living.map((replica) => replica.kill()));
    this.diary.close();
    if (!this.#keepsFolder) rmSync(this.folder, { recursive: true, force: true });
    await this.#backend.close();
  }

  #next(): Replica | undefined {
    this.#deliveries += 1;
    const { living } = this;
    return living[this.#deliveries % living.length];
  }
}

function fits(line: Noted, of: Partial<Noted>): boolean {
  return Object.entries(of).every(([name, value]) => line[name as keyof Noted] === value);
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** `promise`, or `silent` after `ms`. */
async function within(ms: number, promise: Promise<string>): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve('silent'), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
