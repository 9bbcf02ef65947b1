// Slack over three processes on one Redis: a fake of Slack's servers delivers by the one socket there is, and takes what all
// send, while processes are killed, frozen beyond the lease and replaced.
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FakeSlack } from '@botmesh/slack/testing';
import { expect, test } from 'vitest';
import { type OpenBackend, redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';
import { Diary } from '../cluster/Diary.js';

const WORKER = fileURLToPath(new URL('./slack-worker.mjs', import.meta.url));
const LEASE_MS = 2_000;
const PATIENCE_MS = 60_000;
const CHATS = 8;
const MESSAGES = 12;
/** What the replicas keep to together, and what Slack may see at most in a second. */
const RATES = { account: { perSecond: 30, burst: 5 } };
const ALLOWED = 50;
/** How many answers of Slack get lost, though it has the reply. */
const LOST = 3;

interface Process {
  readonly id: string;
  readonly child: ChildProcess;
  /** With its exit code, or the signal. */
  readonly gone: Promise<unknown>;
}

/** Slack, the backend and the processes of one test. */
class Stage implements AsyncDisposable {
  readonly fake: FakeSlack;
  readonly diary: Diary;
  readonly #backend: OpenBackend;
  readonly #folder: string;
  #processes: Process[] = [];
  #launched = 0;

  private constructor(fake: FakeSlack, backend: OpenBackend) {
    this.fake = fake;
    this.#backend = backend;
    this.#folder = mkdtempSync(join(tmpdir(), 'botmesh-slack-'));
    this.diary = new Diary(join(this.#folder, 'diary.jsonl'));
  }

  static async open(): Promise<Stage> {
    // Slack finds out soon that a process answers no more: before its lease has run out.
    const fake = await FakeSlack.start({ ackMs: 1_000, pingMs: 400, retryMs: Array<number>(200).fill(30) });
    const stage = new Stage(fake, await redis.open());
    await Promise.all([stage.launch(), stage.launch(), stage.launch()]);
    return stage;
  }

  get living(): readonly Process[] {
    return this.#processes;
  }

  /** Who has the socket. */
  leader(): Process | undefined {
    const elected = this.diary.read().filter(({ event }) => event === 'elected');
    return this.#processes.find(({ id }) => id === elected.at(-1)?.replicaId);
  }

  async launch(): Promise<void> {
    const { reach } = this.#backend;
    if (reach.kind !== 'redis') throw new Error('expected a Redis');
    const id = `replica-${++this.#launched}`;
    const told = { replicaId: id, diary: this.diary.path, leaseMs: LEASE_MS, redisUrl: reach.url, rates: RATES };
    const child = fork(WORKER, [JSON.stringify({ ...told, workMs: 5, apiUrl: this.fake.apiUrl })], {
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      env: { ...process.env, NODE_NO_WARNINGS: '1' },
    });
    const gone = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)));
    const early = gone.then((how) =>
      Promise.reject(new Error(`${id} ended with ${String(how)} before it had started.`)),
    );
    await Promise.race([new Promise((resolve) => child.once('message', resolve)), early]);
    this.#processes.push({ id, child, gone });
  }

  /** Ends one, and has another one in its place. */
  async replace(old: Process, signal: 'SIGKILL' | 'SIGTERM'): Promise<unknown> {
    this.#processes = this.#processes.filter((each) => each !== old);
    old.child.kill(signal);
    const [how] = await Promise.all([old.gone, this.launch()]);
    return how;
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const untilMs = Date.now() + PATIENCE_MS;
    while (!holds()) {
      if (Date.now() > untilMs) throw new Error(`After ${PATIENCE_MS} ms not so: ${what}.`);
      await pause(20);
    }
  }

  /** Waits until each message has ended, or nothing is noted any more: who dies between an end and its note tells of none. */
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
    await this.fake.close();
    this.diary.close();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.#backend.close();
  }
}

const chats = Array.from({ length: CHATS }, (_, n) => `D${n + 1}`);
const inOrder = Array.from({ length: MESSAGES }, (_, n) => `${n + 1} after ${n === 0 ? 'none' : n}`);

/** Somebody writes one message after the other, as soon as Slack knows that the last one is taken in. */
async function write(fake: FakeSlack, channel: string): Promise<void> {
  for (let n = 1; n <= MESSAGES; n++) {
    const { delivered } = fake.say({ channel, text: String(n) });
    expect((await delivered).isAcknowledged).toBe(true);
    await pause(40);
  }
}

function doubled(texts: readonly string[]): number {
  return texts.length - new Set(texts).size;
}

function checkRates(fake: FakeSlack): void {
  const times = fake.calls.filter(({ method }) => method === 'chat.postMessage').map(({ atMs }) => atMs);
  const most = Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + 1_000).length));
  const { perSecond, burst } = RATES.account;

  expect(most).toBeLessThanOrEqual(ALLOWED);
  // How long so many take when all replicas keep to one rate. A network makes single ones come closer.
  expect(times.at(-1)! - times[0]!).toBeGreaterThanOrEqual(0.9 * ((times.length - burst) / perSecond) * 1_000);
}

function scene(title: string, trouble: (stage: Stage) => Promise<void>, lostAnswers = 0): void {
  test(`Slack: ${title}: each chat in order, none lost, no reply doubled but unknown ones, limits kept, one socket`, async () => {
    await using stage = await Stage.open();
    const { fake, diary } = stage;
    await stage.until('one is connected', () => fake.sockets.open === 1);
    const writing = Promise.all(chats.map((chat) => write(fake, chat)));
    await stage.until('some replies are out', () => chats.flatMap((chat) => fake.posted(chat)).length > 10);

    await trouble(stage);
    await writing;
    await stage.until('each message is answered', () =>
      chats.every((chat) => new Set(fake.posted(chat)).size === MESSAGES),
    );
    await stage.comesToRest();

    const lines = diary.read();
    const unknown = lines.filter(({ event }) => event === 'unknown').length;
    const twice = chats.map((chat) => doubled(fake.posted(chat))).reduce((sum, each) => sum + each, 0);
    for (const chat of chats) expect([...new Set(fake.posted(chat))]).toEqual(inOrder);
    expect(twice).toBeLessThanOrEqual(unknown);
    expect(unknown).toBeGreaterThanOrEqual(lostAnswers);
    expect(lines.filter(({ event, how }) => event === 'ended' && how !== 'handled')).toEqual([]);
    checkRates(fake);
    expect(fake.sockets.most).toBe(1);
    console.log(`${title}: ${fake.sockets.opened} sockets, ${twice} replies doubled, ${unknown} unknown`);
  }, 120_000);
}

scene(
  'the one of three processes that has the socket is killed, and answers get lost',
  async (stage) => {
    stage.fake.loseAnswers('chat.postMessage', LOST);
    await stage.replace(stage.leader()!, 'SIGKILL');
  },
  LOST,
);

scene('the one that has the socket is frozen beyond its lease', async (stage) => {
  const { child, id } = stage.leader()!;
  child.kill('SIGSTOP');
  await stage.until('another one has it', () => stage.leader()?.id !== id && stage.fake.sockets.open === 1);
  child.kill('SIGCONT');
});

scene('all three processes are replaced, one after the other', async (stage) => {
  for (const each of [...stage.living]) expect(await stage.replace(each, 'SIGTERM')).toBe(0);
});
