import { type ChildProcess, fork } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const WORKER = fileURLToPath(new URL('../testing/bot-worker.mjs', import.meta.url));
const CHATS = ['ana', 'ben', 'cleo', 'dan', 'eva', 'finn'];
const SOME_MS = 10;

interface Noted {
  readonly replicaId: string;
  readonly event: 'begun' | 'sent' | 'ended';
  readonly chat: string;
  readonly text: string;
  readonly id: string;
  readonly how: string;
}

/** A bot in a process of its own, as its platform sees it. */
class Replica {
  readonly id: string;
  readonly process: ChildProcess;
  /** Resolves with the code or the signal it ended by. */
  readonly gone: Promise<number | string>;
  readonly #asked = new Map<string, (answer: string) => void>();
  isGone = false;
  started: Promise<void>;

  constructor(path: string, diary: string, id: string) {
    this.id = id;
    this.process = fork(WORKER, [path, diary, id], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
    this.started = new Promise((resolve) => {
      this.process.on('message', (told: { started?: true; id: string; answer?: string; refused?: string }) => {
        if (told.started) resolve();
        else this.#asked.get(told.id)?.(told.answer ?? `refused: ${told.refused}`);
      });
    });
    this.gone = new Promise((resolve) => {
      this.process.once('exit', (code, signal) => {
        this.isGone = true;
        for (const answer of this.#asked.values()) answer('gone');
        resolve(code ?? signal ?? 'unknown');
      });
    });
  }

  /** What became of a message that the platform delivered here: `accepted`, `duplicate`, or why not. */
  async deliver(message: { chat: string; id: string; text: string }): Promise<string> {
    if (this.isGone || !this.process.connected) return 'gone';
    const name = `${message.chat}/${message.id}`;
    const answer = new Promise<string>((resolve) => this.#asked.set(name, resolve));
    this.process.send({ ...message, id: name }, () => {});
    return answer.finally(() => this.#asked.delete(name));
  }

  kill(signal: NodeJS.Signals): Promise<number | string> {
    this.process.kill(signal);
    return this.gone;
  }
}

let folder = '';
let replicas: Replica[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-rolling-'));
  replicas = [];
});

afterEach(async () => {
  await Promise.all(replicas.filter((replica) => !replica.isGone).map((replica) => replica.kill('SIGKILL')));
  rmSync(folder, { recursive: true, force: true });
});

const diary = (): string => join(folder, 'diary.jsonl');
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function launch(): Promise<Replica> {
  const replica = new Replica(join(folder, 'mesh.db'), diary(), `replica-${replicas.length + 1}`);
  replicas.push(replica);
  await replica.started;
  return replica;
}

function read(): Noted[] {
  const lines = readFileSync(diary(), { encoding: 'utf8', flag: 'a+' }).split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Noted);
}

function noted(event: Noted['event']): Noted[] {
  return read().filter((each) => each.event === event);
}

/** Delivers the messages of a chat in order to whichever replica, each until it is taken in. */
async function write(chat: string, isOver: () => boolean, seed: number): Promise<number> {
  let at = seed;
  let count = 0;
  for (; !isOver(); count++) {
    const message = { chat, id: `${count}`, text: `${count}` };
    for (;;) {
      at += 1;
      const open = replicas.filter((replica) => !replica.isGone);
      const answer = await open[at % open.length]!.deliver(message);
      if (answer === 'accepted' || answer === 'duplicate') break;
      await pause(SOME_MS);
    }
    // Faster than they are handled: something waits in every chat.
    await pause(SOME_MS / 3);
  }
  return count;
}

test('a rolling restart under load loses nothing, doubles nothing and reorders nothing; nor does a kill, but for what it cut off', async () => {
  await Promise.all([launch(), launch(), launch()]);
  let isOver = false;
  const writers = CHATS.map((chat, n) => write(chat, () => isOver, n));

  const codes: (number | string)[] = [];
  for (const old of replicas.slice(0, 3)) {
    await launch();
    codes.push(await old.kill('SIGTERM'));
  }
  const doubledByRestart = doubles();
  const victim = replicas[3]!;
  while (unfinished(victim).size === 0) await pause(1);
  await victim.kill('SIGKILL');
  await pause(500);
  isOver = true;
  const counts = await Promise.all(writers);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const untilMs = Date.now() + 15_000;
  while (noted('ended').length < total && Date.now() < untilMs) await pause(50);

  expect(codes).toEqual([0, 0, 0]);
  expect(doubledByRestart).toEqual([]);
  const cutOff = unfinished(victim);
  expect(doubles().filter((name) => !cutOff.has(name))).toEqual([]);
  for (const [n, chat] of CHATS.entries()) {
    const replies = [
      ...new Set(
        noted('sent')
          .filter((sent) => sent.chat === chat)
          .map(({ text }) => text),
      ),
    ];
    let sum = 0;
    const expected = Array.from({ length: counts[n]! }, (_, text) => {
      sum += text;
      return `${text} ${sum}`;
    });
    expect(replies, chat).toEqual(expected);
  }
  console.log(`${total} messages over ${replicas.length} processes; a kill cut ${cutOff.size} off`);
  expect(total).toBeGreaterThan(60);
}, 60_000);

/** Messages that a replica began and did not end. */
function unfinished(replica: Replica): Set<string> {
  const names = new Set<string>();
  for (const { replicaId, event, chat, text, id } of read()) {
    if (replicaId !== replica.id) continue;
    if (event === 'begun') names.add(`${chat} ${text}`);
    else if (event === 'ended') names.delete(id.replace('/', ' '));
  }
  return names;
}

/** Messages that were answered more than once. */
function doubles(): string[] {
  const seen = new Set<string>();
  const twice: string[] = [];
  for (const { chat, text } of noted('sent')) {
    const name = `${chat} ${text.split(' ')[0]}`;
    if (seen.has(name)) twice.push(name);
    seen.add(name);
  }
  return twice;
}
