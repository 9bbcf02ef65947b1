// Bots of the real Chat SDK with its real adapter of Telegram, in processes that are killed, frozen and replaced.
import { expect, test } from 'vitest';
import type { Backend } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';
import { ChatSdkFleet } from './ChatSdkFleet.js';

/** Long enough that a busy machine lets no lease run out by itself. */
const LEASE_MS = 3_000;
const limit = 120_000;
const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);

/** A text may be sent twice in a row, by a replica that died before it could say so; nothing else may be out of place. */
const once = (texts: readonly string[]): string[] => texts.filter((text, at) => text !== texts[at - 1]);

/** The facts, on a backend that is opened for each alone. */
export function declareChatSdkFacts(backend: Backend): void {
  declareKilledInMidWork(backend);
  declareThreeProcesses(backend);
}

function declareKilledInMidWork(backend: Backend): void {
  test(`${backend.name}: of two processes one is killed in mid-work: all its messages are handled by the other, in order`, {
    timeout: limit,
  }, async () => {
    await using fleet = await ChatSdkFleet.open(backend, LEASE_MS);
    const [a] = [await fleet.launch(), await fleet.launch()];
    const chats = Array.from({ length: 12 }, (_, n) => n + 1);

    const delivering = chats.map(async (chat) => {
      for (const text of upTo(15)) await fleet.deliver(chat, `${text} 4`);
    });
    while (fleet.telegram.sent.length < 60) await pause(5);
    await fleet.end(a, 'SIGKILL');
    const killedMs = Date.now();
    await Promise.all(delivering);
    for (const chat of chats) await fleet.until(chat, '15');

    for (const chat of chats) expect(once(fleet.telegram.texts(chat))).toEqual(upTo(15));
    // What it had begun, and what waited behind that, waited for its lease: not for the 75 s of a queue's own limits.
    expect(Date.now() - killedMs).toBeLessThan(45_000);
  });
}

/** One is killed, one frozen, all are replaced. */
export function declareThreeProcesses(backend: Backend): void {
  test(`${backend.name}: three processes, one killed, one frozen beyond its lease and thawed, each replaced in turn: all in order, none lost`, {
    timeout: limit,
  }, async () => {
    await using fleet = await ChatSdkFleet.open(backend, LEASE_MS);
    const [a, b, c] = [await fleet.launch(), await fleet.launch(), await fleet.launch()];

    // Killed while it has a message of chat 1 in hand.
    await fleet.deliver(1, '1 800', a);
    while (!fleet.telegram.typed.some(({ chat }) => chat === '1')) await pause(2);
    await fleet.end(a, 'SIGKILL');
    for (const text of ['2', '3']) await fleet.deliver(1, text, b);

    // Frozen while it has one of chat 2 in hand, which another one handles meanwhile.
    await fleet.deliver(2, '1 800', b);
    while (!fleet.telegram.typed.some(({ chat }) => chat === '2')) await pause(2);
    b.process.kill('SIGSTOP');
    for (const text of ['2', '3']) await fleet.deliver(2, text, c);
    await Promise.all([fleet.until(1, '3'), fleet.until(2, '3')]);
    b.process.kill('SIGCONT');
    await pause(1_500);
    await fleet.deliver(2, '4', b);
    await fleet.until(2, '4');

    expect(once(fleet.telegram.texts(1))).toEqual(['1', '2', '3']);
    expect(fleet.telegram.texts(2)).toEqual(['1', '2', '3', '4']);
    expect(fleet.telegram.sent.find(({ chat, text }) => chat === '2' && text === '1')?.by).toBe(c.id);

    // Replaced one after the other, while messages come.
    const chats = [3, 4, 5, 6];
    let isOver = false;
    const delivering = chats.map(async (chat) => {
      let n = 0;
      while (!isOver) await fleet.deliver(chat, `${++n} 15`);
      return n;
    });
    for (const old of [...fleet.replicas]) {
      await fleet.launch();
      await fleet.end(old, 'SIGTERM');
    }
    isOver = true;
    const counts = await Promise.all(delivering);
    for (const [at, chat] of chats.entries()) await fleet.until(chat, `${counts[at]}`);

    // Nobody died, so nothing is sent twice.
    for (const [at, chat] of chats.entries()) expect(fleet.telegram.texts(chat)).toEqual(upTo(counts[at]!));
  });
}
