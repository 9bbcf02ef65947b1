// WhatsApp over three processes on one Redis: a fake Cloud API delivers to all of them, and takes what they send, while
// processes are killed, frozen beyond the lease and replaced.
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { change, FakeCloudApi, status, textMessage } from '@botmesh/whatsapp/testing';
import { expect, test } from 'vitest';
import { type OpenBackend, redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';
import { Diary } from '../cluster/Diary.js';

const WORKER = fileURLToPath(new URL('./whatsapp-worker.mjs', import.meta.url));
const LEASE_MS = 2_000;
const PATIENCE_MS = 60_000;
const NUMBER = '106540352242922';
const CHATS = 8;
const MESSAGES = 15;
/** What the replicas keep to together, and what the platform allows at most. */
const RATES = { account: { perSecond: 30, burst: 5 } };
const ALLOWED = 50;
/** How many answers of the platform are cut off, though it has the reply. */
const LOST = 3;

interface Process {
  readonly child: ChildProcess;
  readonly url: string;
  readonly gone: Promise<unknown>;
}

/** The platform, the backend and the processes of one test. */
class Stage implements AsyncDisposable {
  readonly fake: FakeCloudApi;
  readonly diary: Diary;
  readonly #backend: OpenBackend;
  readonly #folder: string;
  #processes: Process[] = [];
  #launched = 0;

  private constructor(fake: FakeCloudApi, backend: OpenBackend) {
    this.fake = fake;
    this.#backend = backend;
    this.#folder = mkdtempSync(join(tmpdir(), 'botmesh-whatsapp-'));
    this.diary = new Diary(join(this.#folder, 'diary.jsonl'));
  }

  static async open(): Promise<Stage> {
    const fake = await FakeCloudApi.start({ perSecond: ALLOWED, patienceMs: 1_000 });
    const stage = new Stage(fake, await redis.open());
    await Promise.all([stage.launch(), stage.launch(), stage.launch()]);
    return stage;
  }

  async launch(): Promise<void> {
    const { reach } = this.#backend;
    if (reach.kind !== 'redis') throw new Error('expected a Redis');
    const told = {
      replicaId: `replica-${++this.#launched}`,
      diary: this.diary.path,
      leaseMs: LEASE_MS,
      redisUrl: reach.url,
      rates: RATES,
      workMs: 5,
      token: this.fake.token,
      appSecret: this.fake.appSecret,
      verifyToken: 'ours',
      apiUrl: this.fake.url,
      path: '/whatsapp',
    };
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    const child = fork(WORKER, [JSON.stringify(told)], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env,
    });
    const gone = new Promise((resolve) => child.once('exit', resolve));
    const url = await Promise.race([
      new Promise<string>((resolve) => child.once('message', (answer) => resolve((answer as { url: string }).url))),
      gone.then((how) =>
        Promise.reject(new Error(`${told.replicaId} ended with ${String(how)} before it had started.`)),
      ),
    ]);
    this.#processes.push({ child, url, gone });
    this.#tellPlatform();
  }

  get living(): readonly Process[] {
    return this.#processes;
  }

  /** Ends one, and has another one in its place. */
  async replace(old: Process, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.#processes = this.#processes.filter((each) => each !== old);
    old.child.kill(signal);
    // Calls reach it for a while yet: the platform has not heard.
    await Promise.all([old.gone, this.launch()]);
    this.#tellPlatform();
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const untilMs = Date.now() + PATIENCE_MS;
    while (!holds()) {
      if (Date.now() > untilMs) throw new Error(`After ${PATIENCE_MS} ms not so: ${what}.`);
      await pause(20);
    }
  }

  /**
   * Waits until each message has ended, or nothing is noted any more: a process that dies, or is counted as dead, between an
   * end and its note tells of none.
   */
  async comesToRest(): Promise<void> {
    let [count, sinceMs] = [0, Date.now()];
    await this.until('all are at rest', () => {
      const lines = this.diary.read();
      if (lines.length !== count) [count, sinceMs] = [lines.length, Date.now()];
      const ended = lines.filter(({ event }) => event === 'ended').map(({ chat, id }) => `${chat} ${id}`);
      return new Set(ended).size === CHATS * MESSAGES || Date.now() - sinceMs > 2 * LEASE_MS;
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(
      this.#processes.map(async ({ child, gone }) => {
        child.kill('SIGKILL');
        await gone;
      }),
    );
    await this.fake[Symbol.asyncDispose]();
    this.diary.close();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.#backend.close();
  }

  #tellPlatform(): void {
    this.fake.webhooks = this.#processes.map(({ url }) => url);
  }
}

const chats = Array.from({ length: CHATS }, (_, n) => `1650555000${n}`);
const inOrder = Array.from({ length: MESSAGES }, (_, n) => `${n + 1} after ${n === 0 ? 'none' : n}`);

/** Somebody writes one message after the other; a status comes along with each. */
async function write(fake: FakeCloudApi, chat: string): Promise<void> {
  for (let n = 1; n <= MESSAGES; n++) {
    const messages = [textMessage(chat, String(n))];
    await fake.deliver(
      change(NUMBER, { messages }),
      change(NUMBER, { statuses: [status(`wamid.${n}`, chat, 'read')] }),
    );
  }
}

/** How often each reply went out beyond once. */
function doubled(texts: readonly string[]): number {
  return texts.length - new Set(texts).size;
}

/** The most that went out in any second. */
function mostInASecond(fake: FakeCloudApi): number {
  return Math.max(
    ...fake.sent.map(({ atMs }) => fake.sent.filter((each) => each.atMs >= atMs && each.atMs < atMs + 1_000).length),
  );
}

function spanMs({ sent }: FakeCloudApi): number {
  return sent.at(-1)!.atMs - sent[0]!.atMs;
}

/** How long so many take when all replicas keep to one rate. A network makes single ones come closer. */
function leastSpanMs(count: number): number {
  const { perSecond, burst } = RATES.account;
  return 0.9 * ((count - burst) / perSecond) * 1_000;
}

function scene(title: string, trouble: (stage: Stage) => Promise<void>, lostAnswers = 0): void {
  test(`WhatsApp: ${title}: each chat in order, none lost, no reply doubled but unknown ones, limits kept`, async () => {
    await using stage = await Stage.open();
    const { fake, diary } = stage;
    const writing = Promise.all(chats.map((chat) => write(fake, chat)));
    await stage.until('some replies are out', () => fake.sent.length > 10);

    await trouble(stage);
    await writing;
    await stage.until('each message is answered', () =>
      chats.every((chat) => new Set(fake.textsTo(chat)).size === MESSAGES),
    );
    await stage.comesToRest();

    const lines = diary.read();
    const unknown = lines.filter(({ event }) => event === 'unknown').length;
    const twice = chats.map((chat) => doubled(fake.textsTo(chat))).reduce((sum, each) => sum + each, 0);
    for (const chat of chats) expect([...new Set(fake.textsTo(chat))]).toEqual(inOrder);
    expect(twice).toBeLessThanOrEqual(unknown);
    expect(lines.filter(({ event, how }) => event === 'ended' && how !== 'handled')).toEqual([]);
    expect(fake.limited).toEqual([]);
    expect(mostInASecond(fake)).toBeLessThanOrEqual(ALLOWED);
    expect(spanMs(fake)).toBeGreaterThanOrEqual(leastSpanMs(fake.sent.length));
    expect(unknown).toBeGreaterThanOrEqual(lostAnswers);
    expect(lines.filter(({ event }) => event === 'status').length).toBeGreaterThanOrEqual(CHATS * MESSAGES);
  }, 120_000);
}

scene(
  'one of three processes is killed in the middle, and answers get lost',
  async (stage) => {
    stage.fake.fail({ instead: 'cut', isSent: true, times: LOST });
    await stage.replace(stage.living[0]!, 'SIGKILL');
  },
  LOST,
);

scene('one of three processes is frozen beyond its lease', async (stage) => {
  const { child } = stage.living[1]!;
  child.kill('SIGSTOP');
  await pause(2 * LEASE_MS);
  child.kill('SIGCONT');
});

scene('all three processes are replaced, one after the other', async (stage) => {
  for (const each of [...stage.living]) await stage.replace(each, 'SIGTERM');
});
