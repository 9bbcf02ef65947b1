// Slack by the Events API: what it asks of an app beside the suite of all channels, of three processes behind a balancer.
import { describe, expect, test } from 'vitest';
import { type SlackPlatform, slackHttp } from './platforms.js';
import { Stage } from './Stage.js';
import { declareChannel } from './suite.js';

declareChannel(slackHttp);

/** How long Slack waits for an answer to a command, a button, a modal. */
const ACK_MS = 3_000;
const LEASE_MS = 4_000;

type Scene = Stage<SlackPlatform>;

const endsOf = (stage: Scene): number => stage.diary.read().filter(({ event }) => event === 'ended').length;

describe.concurrent('Slack by the Events API, three processes', () => {
  test('an event that comes again, as a retry, under a new envelope or as a mention of the same message, is handled once', {
    timeout: 60_000,
  }, async () => {
    await using stage: Scene = await Stage.open(slackHttp, { leaseMs: LEASE_MS });
    const { fake } = stage.platform;
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
    await stage.until('it has ended', () => endsOf(stage) === 1);
    const late = await Promise.all(again.map((each) => fake.deliver('events_api', each)));
    await fake.say({ channel: 'C1', text: 'next', threadTs: String(event.ts as string) }).delivered;
    await stage.until('what came next has ended', () => endsOf(stage) === 2);

    expect([...answers, ...late].every(({ status, attempts }) => status === 200 && attempts === 1)).toBe(true);
    expect(fake.posted('C1')).toEqual(['hi after none', 'next after hi']);
  });

  test('a retry reaches another process when the first one does not answer in time, and both answers are one message', {
    timeout: 60_000,
  }, async () => {
    await using stage: Scene = await Stage.open(slackHttp, { leaseMs: LEASE_MS });
    const { fake } = stage.platform;
    const [frozen] = stage.living;
    frozen!.child.kill('SIGSTOP');

    const said = ['a', 'b', 'c'].map((text, n) => fake.say({ channel: `D${n}`, text }).delivered);
    const answers = await Promise.all(said);
    frozen!.child.kill('SIGCONT');
    await stage.until('all have ended', () => endsOf(stage) === 3);

    // It waited in the socket of the one that was frozen, and is taken for what it is when that one wakes.
    expect(answers.some(({ attempts }) => attempts > 1)).toBe(true);
    expect(['D0', 'D1', 'D2'].map((channel) => fake.posted(channel))).toEqual([
      ['a after none'],
      ['b after none'],
      ['c after none'],
    ]);
  });

  test('a command, a button and a modal are acknowledged within three seconds while a turn of their chat runs, and follow it', {
    timeout: 60_000,
  }, async () => {
    await using stage: Scene = await Stage.open(slackHttp, { leaseMs: LEASE_MS });
    const { fake } = stage.platform;
    const workMs = ACK_MS + 1_000;
    await Promise.all([
      fake.say({ channel: 'D1', text: `slow ${workMs}` }).delivered,
      fake.submit({ callbackId: `slow ${workMs}`, user: 'U1' }),
    ]);
    await stage.until('both turns run', () => stage.diary.read().filter(({ event }) => event === 'begun').length === 2);

    const sinceMs = Date.now();
    const command = await fake.command({ command: '/go', channel: 'D1', text: 'far' });
    const button = await fake.action({ actionId: 'press', channel: 'D1', value: 'yes' });
    const modal = await fake.submit({ callbackId: 'form', user: 'U1' });
    const tookMs = Date.now() - sinceMs;
    expect(fake.posted('D1')).toEqual([]);
    await stage.until('all have ended', () => endsOf(stage) === 5);

    expect(tookMs).toBeLessThan(ACK_MS);
    for (const { status, answer } of [command, button, modal]) expect([status, answer]).toEqual([200, '']);
    expect(fake.posted('D1')).toEqual([
      `slow ${workMs} after none`,
      `/go far after slow ${workMs}`,
      'yes after /go far',
    ]);
    expect(fake.posted('U1')).toEqual([`slow ${workMs} after none`, `form after slow ${workMs}`]);
  });

  test('a limit of a channel, met by one process in one thread, holds all threads of it in all processes, and no other channel', {
    timeout: 60_000,
  }, async () => {
    const [perSecond, limitS, threads] = [5, 3, ['1.1', '2.2', '3.3']];
    const rates = { account: { perSecond: 100, burst: 1 }, chat: { perSecond, burst: 1 } };
    await using stage: Scene = await Stage.open(slackHttp, { leaseMs: LEASE_MS, rates });
    const { fake } = stage.platform;
    fake.limit('chat.postMessage', limitS);

    const texts = ['a', 'b', 'c', 'd'];
    for (const text of texts) {
      await Promise.all(threads.map((threadTs) => fake.say({ channel: 'C1', text, threadTs }).delivered));
    }
    await stage.until('one was limited', () => fake.calls.some(({ error }) => error === 'ratelimited'));
    await fake.say({ channel: 'D9', text: 'elsewhere' }).delivered;
    await stage.until('all have ended', () => endsOf(stage) === texts.length * threads.length + 1);

    const calls = fake.calls.filter(({ method }) => method === 'chat.postMessage');
    const limited = calls.find(({ error }) => error === 'ratelimited')!;
    const after = calls.filter(({ atMs }) => atMs > limited.atMs);
    const early = after.filter(({ args, atMs }) => args.channel === 'C1' && atMs < limited.atMs + limitS * 1_000);
    // Each other thread may have been given its slot before, and one more until the others have heard.
    expect(early.length).toBeLessThanOrEqual(2 * (threads.length - 1));
    expect(after.find(({ args }) => args.channel === 'D9')!.atMs).toBeLessThan(limited.atMs + limitS * 1_000);
    for (const thread of threads) {
      const told = fake.messages('C1', thread).filter(({ by }) => by === 'bot');
      expect(told.map(({ text }) => text)).toEqual(['a after none', 'b after a', 'c after b', 'd after c']);
    }
    const times = after.filter(({ args }) => args.channel === 'C1').map(({ atMs }) => atMs);
    expect(times.at(-1)! - times[0]!).toBeGreaterThanOrEqual(0.9 * ((times.length - 1) / perSecond) * 1_000);
  });
});
