import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { delivery, FakeTelegram, SECRET, update } from '../../packages/chat-sdk/testing/FakeTelegram.js';
import type { Backend, OpenBackend } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';

const PROGRAM = fileURLToPath(new URL('./chat-sdk-replica.mjs', import.meta.url));
const PATIENCE_MS = 60_000;
/** A platform that hears nothing delivers again, elsewhere. */
const REDELIVER_MS = 1_000;

export interface Replica {
  readonly id: string;
  readonly process: ChildProcess;
  readonly port: number;
  readonly gone: Promise<unknown>;
}

/** Bots of the Chat SDK in processes of their own, and the platform in front of them. */
export class ChatSdkFleet implements AsyncDisposable {
  readonly replicas: Replica[] = [];
  readonly telegram: FakeTelegram;
  readonly leaseMs: number;
  readonly #backend: OpenBackend;
  #starts = 0;
  #updates = 0;

  private constructor(telegram: FakeTelegram, backend: OpenBackend, leaseMs: number) {
    this.telegram = telegram;
    this.#backend = backend;
    this.leaseMs = leaseMs;
  }

  static async open(backend: Backend, leaseMs: number): Promise<ChatSdkFleet> {
    return new ChatSdkFleet(await FakeTelegram.open(), await backend.open(), leaseMs);
  }

  async launch(): Promise<Replica> {
    const id = `r${++this.#starts}`;
    const told = {
      backend: this.#backend.reach,
      replicaId: id,
      leaseMs: this.leaseMs,
      telegram: this.telegram.url,
      secretToken: SECRET,
    };
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    const child = fork(PROGRAM, [JSON.stringify(told)], { execArgv: [], env });
    const gone = new Promise((resolve) => child.once('exit', resolve));
    const port = await new Promise<number>((resolve, reject) => {
      child.once('message', (message) => resolve((message as { port: number }).port));
      void gone.then((code) => reject(new Error(`${id} ended with ${String(code)} before it had started.`)));
    });
    const replica = { id, process: child, port, gone };
    this.replicas.push(replica);
    return replica;
  }

  /** It gets nothing more, and ends by the signal. */
  async end(replica: Replica, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    replica.process.kill(signal);
    await replica.gone;
  }

  /** Delivers an update until some replica has answered 200, as Telegram does. */
  async deliver(chat: number, text: string, first?: Replica): Promise<void> {
    const body = update(++this.#updates, chat, text);
    const untilMs = Date.now() + PATIENCE_MS;
    for (let tries = this.#updates; Date.now() < untilMs; tries++) {
      const to = tries === this.#updates && first !== undefined ? first : this.replicas[tries % this.replicas.length];
      if ((await answerOf(to, body)) === 200) return;
      await pause(20);
    }
    throw new Error(`Nobody took '${text}' of ${chat} in.`);
  }

  /** Waits until what a chat was sent ends with `text`. */
  async until(chat: number, text: string): Promise<void> {
    const untilMs = Date.now() + PATIENCE_MS;
    while (!this.telegram.texts(chat).includes(text)) {
      if (Date.now() > untilMs)
        throw new Error(`Chat ${chat} was never sent '${text}': ${this.telegram.texts(chat).join()}`);
      await pause(10);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process: child, gone } of this.replicas) {
      child.kill('SIGKILL');
      await gone;
    }
    await this.#backend.close();
    await this.telegram[Symbol.asyncDispose]();
  }
}

async function answerOf(to: Replica | undefined, body: unknown): Promise<number | undefined> {
  if (to === undefined) return undefined;
  const { headers } = delivery(body);
  try {
    const response = await fetch(`http://127.0.0.1:${to.port}/telegram`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REDELIVER_MS),
    });
    await response.arrayBuffer();
    return response.status;
  } catch {
    return undefined;
  }
}
