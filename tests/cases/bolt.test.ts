// A Bolt app in three processes, while one is killed, one is frozen beyond its lease, and all are replaced.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Delivered, FakeSlack } from '@botmesh/slack/testing';
import { expect, test } from 'vitest';
import { type Backend, redis } from '../cluster/backends.js';
import { Diary, type Noted } from '../cluster/Diary.js';

const WORKER = fileURLToPath(new URL('../cluster/bolt-worker.mjs', import.meta.url));
const LEASE_MS = 3_000;
const CHATS = 8;
/** Each chat gets its next message so long after the last one was acknowledged. */
const PAUSE_MS = 60;

interface Worker {
  readonly id: string;
  readonly process: ChildProcess;
}

class Fleet implements AsyncDisposable {
  readonly slack: FakeSlack;
  readonly diary: Diary;
  readonly living = new Map<string, Worker>();
  readonly #backend: Awaited<ReturnType<Backend['open']>>;
  readonly #folder: string;
  #launched = 0;

  private constructor(slack: FakeSlack, backend: Awaited<ReturnType<Backend['open']>>) {
    this.slack = slack;
    this.#backend = backend;
    this.#folder = mkdtempSync(join(tmpdir(), 'botmesh-bolt-'));
    this.diary = new Diary(join(this.#folder, 'diary.jsonl'));
  }

  static async open(backend: Backend): Promise<Fleet> {
    // Slack finds out soon that a process answers no more, as long as its lease has not run out.
    const slack = await FakeSlack.start({ ackMs: 1_500, pingMs: 400, retryMs: Array<number>(100).fill(30) });
    return new Fleet(slack, await backend.open());
  }

  async launch(): Promise<Worker> {
    const id = `replica-${++this.#launched}`;
    const told = { backend: this.#backend.reach, replicaId: id, leaseMs: LEASE_MS, diary: this.diary.path };
    const argument = JSON.stringify({ ...told, slackApiUrl: this.slack.apiUrl });
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    const child = fork(WORKER, [argument], { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'], env });
    const worker = { id, process: child };
    this.living.set(id, worker);
    const gone = once(child, 'exit').then(() => this.living.delete(id));
    await Promise.race([once(child, 'message'), gone]);
    expect(this.living.has(id), `${id} has started`).toBe(true);
    return worker;
  }

  /** Who has the socket. */
  leader(): Worker | undefined {
    const elected = this.diary.read().filter(({ event }) => event === 'elected');
    return this.living.get(elected.at(-1)?.replicaId ?? '');
  }

  /** With its exit code, or the signal. */
  async end(worker: Worker, signal: NodeJS.Signals): Promise<unknown> {
    const ended = once(worker.process, 'exit');
    worker.process.kill(signal);
    const [code, by] = (await ended) as unknown[];
    return code ?? by;
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    for (const untilMs = Date.now() + 60_000; !holds(); await sleep(20)) {
      if (Date.now() > untilMs) throw new Error(`It did not come about in time: ${what}`);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.living.values()].map((worker) => this.end(worker, 'SIGKILL')));
    await this.slack.close();
    this.diary.close();
    rmSync(this.#folder, { recursive: true, force: true });
    await this.#backend.close();
  }
}

/** Users who write on and on, each in a chat of his own, until told to stop. */
class Users {
  readonly #slack: FakeSlack;
  readonly #talks: Promise<void>[];
  readonly deliveries: Delivered[] = [];
  /** How many messages each chat got, and the time of each: it names the message. */
  readonly sent = new Map<string, string[]>();
  #isOver = false;

  constructor(slack: FakeSlack) {
    this.#slack = slack;
    this.#talks = Array.from({ length: CHATS }, (_, n) => this.#talk(`D${n + 1}`));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#talks);
  }

  async #talk(channel: string): Promise<void> {
    const times: string[] = [];
    this.sent.set(channel, times);
    while (!this.#isOver) {
      const { ts, delivered } = this.#slack.say({ channel, text: `${times.length + 1}` });
      times.push(ts);
      this.deliveries.push(await delivered);
      await sleep(PAUSE_MS);
    }
  }
}

const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);
const of = (lines: readonly Noted[], event: string, chat: string): Noted[] =>
  lines.filter((line) => line.event === event && line.chat === chat);

/** What must hold of one chat, by what was noted of it. `times` name its messages where their ends are noted. */
function checkChat(lines: readonly Noted[], chat: string, times: readonly string[]): void {
  const done = new Set<string>();
  const ended = new Set<string>();
  for (const { event, id = '' } of lines.filter((line) => line.chat === chat)) {
    if (event === 'begun') {
      expect(ended.has(id), `${chat}: ${id} began again after it had ended`).toBe(false);
      expect(id === '1' || done.has(`${+id - 1}`), `${chat}: ${id} began before the one before it was done`).toBe(true);
    }
    if (event === 'done') done.add(id);
    if (event === 'ended') ended.add(`${times.indexOf(id) + 1}`);
  }
  expect([...done], `${chat}: all are handled, in order`).toEqual(upTo(times.length));
  expect(new Set(of(lines, 'begun', chat).map(({ id }) => id)).size).toBe(times.length);
}

for (const backend of [redis]) {
  test(`${backend.name}: a Bolt app in three processes loses nothing and keeps each chat in order, with one socket, while one is killed, one frozen and all replaced`, {
    timeout: 180_000,
  }, async () => {
    await using fleet = await Fleet.open(backend);
    const { slack, diary } = fleet;
    await Promise.all([fleet.launch(), fleet.launch(), fleet.launch()]);
    await fleet.until('one is connected', () => slack.sockets.open === 1);
    const users = new Users(slack);
    await sleep(500);

    const killed = fleet.leader()!;
    expect(await fleet.end(killed, 'SIGKILL')).toBe('SIGKILL');
    await fleet.launch();
    await fleet.until('another one is connected', () => slack.sockets.open === 1 && fleet.leader() !== undefined);
    await sleep(500);

    const frozen = fleet.leader()!;
    frozen.process.kill('SIGSTOP');
    await fleet.until('another one leads', () => fleet.leader() !== frozen && slack.sockets.open === 1);
    frozen.process.kill('SIGCONT');
    await fleet.until('it knows', () =>
      diary.read().some(({ event, replicaId }) => event === 'superseded' && replicaId === frozen.id),
    );
    await sleep(500);

    for (const old of [...fleet.living.values()]) {
      await fleet.launch();
      expect(await fleet.end(old, 'SIGTERM'), `${old.id} ends in good order`).toBe(0);
    }
    await fleet.until('one is connected', () => slack.sockets.open === 1);
    await sleep(500);
    await users.stop();
    await fleet.until('all are handled', () =>
      [...users.sent].every(([chat, times]) =>
        of(diary.read(), 'done', chat).some(({ id }) => id === `${times.length}`),
      ),
    );

    const lines = diary.read();
    expect(users.deliveries.filter(({ isAcknowledged }) => !isAcknowledged)).toEqual([]);
    for (const [chat, times] of users.sent) {
      checkChat(lines, chat, times);
      // What Slack shows: each answer, in order; twice only where the first was not known to have ended.
      const posted = slack.posted(chat);
      expect(posted.filter((text, n) => posted.indexOf(text) === n)).toEqual(upTo(times.length));
    }
    const doubled = lines.filter(({ event }) => event === 'begun').length - users.deliveries.length;
    console.log(`${users.deliveries.length} messages, ${doubled} begun again, ${slack.sockets.opened} sockets`);
    expect(slack.sockets.most).toBe(1);
    // One for each leader, and one where a leader was told so late that it had begun to connect again.
    expect(slack.calls.filter(({ method }) => method === 'apps.connections.open').length).toBeLessThanOrEqual(12);
  });
}
