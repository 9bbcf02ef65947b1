// Slack by the Events API: what it asks of an app beside the suite of all channels, of three processes behind a balancer.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type SlackPlatform, slackHttp } from './platforms.js';
import { Stage } from './Stage.js';
import { declareChannel } from './suite.js';

declareChannel(slackHttp);

/** How long Slack waits for an answer to a command, a button, a modal. */
const ACK_MS = 3_000;
const RATES = { account: { perSecond: 100, burst: 5 }, chat: { perSecond: 5, burst: 1 } };

let stage: Stage<SlackPlatform>;

/** Resolves when so many messages of these chats have ended. */
const ended = (count: number, isMeant: (chat: string) => boolean): Promise<void> =>
  stage.until('all have ended', () => {
    const lines = stage.diary.read().filter(({ event, chat = '' }) => event === 'ended' && isMeant(chat));
    return lines.length === count;
  });

describe('Slack by the Events API, three processes', () => {
  beforeAll(async () => {
    stage = await Stage.open(slackHttp, { leaseMs: 12_000, rates: RATES });
  }, 60_000);

  afterAll(() => stage[Symbol.asyncDispose]());

  test('an event that comes again, as a retry, under a new envelope or as a mention of the same message, is handled once', {
    timeout: 60_000,
  }, async () => {
    const { fake } = stage.platform;
    const isHere = (chat: string): boolean => chat.startsWith('C1:');
    const { payload, delivered } = fake.say({ channel: 'C1', text: '<@U00FAKEBOT> hi' });
    await delivered;
    const event = payload.event as Record<string, unknown>;
    const again = [
      payload,
      { ...payload, event_id: 'Ev2', event_time: 7 },
      { ...payload, event_id: 'Ev3', event: { ...event, type: 'app_mention', channel_type: undefined } },
    ];

    // To each process, as the balancer goes round, at the same time and after the end.
    const answers = await Promise.all([...again, ...again].map((each) => fake.deliver('events_api', each)));
    await ended(1, isHere);
    const late = await Promise.all(again.map((each) => fake.deliver('events_api', each)));
    await fake.say({ channel: 'C1', text: 'next', threadTs: String(event.ts as string) }).delivered;
    await ended(2, isHere);

    expect([...answers, ...late].every(({ status }) => status === 200)).toBe(true);
    expect(fake.posted('C1')).toEqual(['hi after none', 'next after hi']);
  });

  test('a retry reaches another process when the first one does not answer in time, and both deliveries are one message', {
    timeout: 60_000,
  }, async () => {
    const { fake } = stage.platform;
    const chats = ['D11', 'D12', 'D13'];
    const { child } = stage.living[0]!;
    child.kill('SIGSTOP');

    // One of the three meets the process that is frozen.
    const answers = await Promise.all(chats.map((channel) => fake.say({ channel, text: 'hi' }).delivered));
    child.kill('SIGCONT');
    await ended(3, (chat) => chats.includes(chat));
    // What waited in the socket of that process is taken for what it is when it wakes.
    await Promise.all(chats.map((channel) => fake.say({ channel, text: 'next' }).delivered));
    await ended(6, (chat) => chats.includes(chat));

    expect(answers.some(({ attempts }) => attempts > 1)).toBe(true);
    for (const channel of chats) expect(fake.posted(channel)).toEqual(['hi after none', 'next after hi']);
  });

  test('a command, a button and a modal are acknowledged within three seconds while a turn of their chat runs, and follow it', {
    timeout: 60_000,
  }, async () => {
    const { fake } = stage.platform;
    const isHere = (chat: string): boolean => ['D21', 'user:U21'].includes(chat);
    const slow = `slow ${ACK_MS + 2_000}`;
    await Promise.all([
      fake.say({ channel: 'D21', text: slow }).delivered,
      fake.submit({ callbackId: slow, user: 'U21' }),
    ]);
    await stage.until('both turns run', () => {
      const begun = stage.diary.read().filter(({ event, chat = '' }) => event === 'begun' && isHere(chat));
      return begun.length === 2;
    });

    // Slack waits for three seconds, and takes no later answer.
    const command = await fake.command({ command: '/go', channel: 'D21', text: 'far' });
    const button = await fake.action({ actionId: 'press', channel: 'D21', value: 'yes' });
    const modal = await fake.submit({ callbackId: 'form', user: 'U21' });
    const running = fake.posted('D21').length === 0;
    await ended(5, isHere);

    expect(running).toBe(true);
    for (const { status, answer } of [command, button, modal]) expect([status, answer]).toEqual([200, '']);
    expect(fake.posted('D21')).toEqual([`${slow} after none`, `/go far after ${slow}`, 'yes after /go far']);
    expect(fake.posted('U21')).toEqual([`${slow} after none`, `form after ${slow}`]);
  });

  test('a limit of a channel, met by one process in one thread, holds all threads of it in all processes, and no other channel', {
    timeout: 60_000,
  }, async () => {
    const { fake } = stage.platform;
    const [limitS, threads, texts] = [3, ['1.1', '2.2', '3.3'], ['a', 'b', 'c', 'd']];
    const isHere = (chat: string): boolean => chat.startsWith('C31:') || chat === 'D31';
    fake.limit('chat.postMessage', limitS);

    for (const text of texts) {
      await Promise.all(threads.map((threadTs) => fake.say({ channel: 'C31', text, threadTs }).delivered));
    }
    const limits = (): readonly number[] =>
      fake.calls.flatMap(({ error, atMs }) => (error === 'ratelimited' ? [atMs] : []));
    await stage.until('one was limited', () => limits().length === 1);
    await fake.say({ channel: 'D31', text: 'elsewhere' }).delivered;
    await ended(texts.length * threads.length + 1, isHere);

    const [limitedMs = 0] = limits();
    const after = fake.calls.filter(({ method, atMs }) => method === 'chat.postMessage' && atMs > limitedMs);
    const here = after.flatMap(({ args, atMs }) => (args.channel === 'C31' ? [atMs] : []));
    // Each other thread may have been given its slot before, and one more until the others have heard.
    const early = here.filter((atMs) => atMs < limitedMs + limitS * 1_000);
    expect(early.length).toBeLessThanOrEqual(2 * (threads.length - 1));
    expect(after.find(({ args }) => args.channel === 'D31')!.atMs).toBeLessThan(limitedMs + limitS * 1_000);
    for (const thread of threads) {
      const told = fake.messages('C31', thread).filter(({ by }) => by === 'bot');
      expect(told.map(({ text }) => text)).toEqual(['a after none', 'b after a', 'c after b', 'd after c']);
    }
    expect(here.at(-1)! - here[0]!).toBeGreaterThanOrEqual(0.9 * ((here.length - 1) / RATES.chat.perSecond) * 1_000);
  });
});
