import { setTimeout as sleep } from 'node:timers/promises';
import { Bot, CoordinationUnavailableError, LeaseLostError } from '@botmesh/core';
import type { Intake, Lead } from '@botmesh/core/spi';
import { providerConformance } from '@botmesh/core/testing';
import { describe, expect, test } from 'vitest';
import { type SlackOptions, slack } from './index.js';
import { FakeSlack, type FakeSlackOptions } from './testing/FakeSlack.js';
import { callbackOf } from './testing/payloads.js';

const TOKENS = { token: 'xoxb-planted', appToken: 'xapp-planted' };

/** A leadership that the test takes away. */
class TestLead implements Lead {
  readonly #ending = new AbortController();
  readonly signal = this.#ending.signal;
  readonly givenUp: unknown[] = [];

  lose(): void {
    this.#ending.abort(new LeaseLostError('expired'));
  }

  giveUp(error: unknown): void {
    this.givenUp.push(error);
  }

  assertHeld(): void {
    this.signal.throwIfAborted();
  }
}

for (const { title, run, skip } of providerConformance({
  name: 'slack',
  naming: { id: (name) => `message::ana:${name}` },
  secrets: Object.values(TOKENS),
  open: async () => {
    const fake = await FakeSlack.start({ ackMs: 300, retryMs: [] });
    return {
      provider: slack({ ...TOKENS, apiUrl: fake.apiUrl, log: () => {} }),
      deliver: async ({ id, chat, text }) => {
        const event = { type: 'message', channel: chat, channel_type: 'im', user: 'U1', ts: id, event_ts: id, text };
        const wrapped = callbackOf(event, { eventId: `Ev${id}`, ts: '1.0' });
        return (await fake.deliver('events_api', wrapped)).isAcknowledged;
      },
      sent: () =>
        fake.calls
          .filter(({ method }) => method === 'chat.postMessage')
          .map(({ args }) => ({ chat: String(args.channel as string), text: String(args.text as string) })),
      refuseNextSend: () => fake.refuse('chat.postMessage', 'channel_not_found'),
      close: () => fake.close(),
    };
  },
})) {
  test.skipIf(skip !== undefined)(`Socket Mode: ${title}${skip === undefined ? '' : ` (skipped: ${skip})`}`, run);
}

interface Scene {
  readonly fake: FakeSlack;
  readonly heard: string[];
  readonly logged: string[];
  readonly lead: TestLead;
  readonly provider: ReturnType<typeof slack>;
}

async function scene(
  play: (scene: Scene) => Promise<void>,
  options: Partial<SlackOptions> = {},
  { intake, ...fakeOptions }: FakeSlackOptions & { intake?: Intake } = {},
): Promise<void> {
  const fake = await FakeSlack.start({ ackMs: 500, retryMs: [10, 10, 10], ...fakeOptions });
  const [heard, logged, lead]: [string[], string[], TestLead] = [[], [], new TestLead()];
  const provider = slack({ ...TOKENS, apiUrl: fake.apiUrl, log: (line) => logged.push(line), ...options });
  const take: Intake = async ({ text }) => {
    heard.push(text);
    return 'accepted';
  };
  try {
    await provider.start(intake ?? take, lead);
    await play({ fake, heard, logged, lead, provider });
  } finally {
    await provider.stop();
    await fake.close();
  }
}

async function until(holds: () => boolean): Promise<void> {
  for (const untilMs = Date.now() + 8_000; !holds(); await sleep(10)) {
    if (Date.now() > untilMs) throw new Error('It did not come about in time.');
  }
}

describe.concurrent('Socket Mode', () => {
  test('opens the next connection when it is told to, after the last one is closed', () =>
    scene(async ({ fake, heard }) => {
      fake.disconnect('refresh_requested');
      await until(() => fake.sockets.opened === 2);
      await fake.say({ channel: 'D1', text: 'after' }).delivered;

      expect(fake.sockets.most).toBe(1);
      expect(heard).toEqual(['after']);
    }));

  test('opens another one when it was cut off, and what came meanwhile is taken in once it is there', () =>
    scene(async ({ fake, heard }) => {
      fake.cutSockets();
      await until(() => fake.sockets.open === 0);
      const { delivered } = fake.say({ channel: 'D1', text: 'meanwhile' });

      expect((await delivered).isAcknowledged).toBe(true);
      expect(heard).toEqual(['meanwhile']);
    }));

  test('does not spin while no connection comes about: it waits longer each time, and says so without a secret', () =>
    scene(async ({ fake, logged }) => {
      const opens = (): number => fake.calls.filter(({ method }) => method === 'apps.connections.open').length;
      fake.refuse('apps.connections.open', 'internal_error', 2);
      fake.cutSockets();
      await until(() => logged.length === 1);
      await sleep(300);
      expect(opens()).toBe(2);
      expect(logged.join()).toContain('internal_error');
      expect(logged.join()).not.toMatch(/planted|ws:/);
    }));

  test('gives the leadership up when Slack takes the app token no more, and asks no more', () =>
    scene(async ({ fake, lead }) => {
      const opens = (): number => fake.calls.filter(({ method }) => method === 'apps.connections.open').length;
      fake.refuse('apps.connections.open', 'token_revoked', 5);
      fake.cutSockets();
      await until(() => lead.givenUp.length === 1);
      await sleep(1_300);

      expect(lead.givenUp[0]).toMatchObject({ code: 'delivery', reason: 'token_revoked' });
      expect(opens()).toBe(2);
    }));

  test('says that Socket Mode was switched off, and tries again all the same', () =>
    scene(async ({ fake, logged }) => {
      fake.disconnect('link_disabled');
      await until(() => fake.sockets.opened === 2);

      expect(logged.join()).toContain('switched off');
    }));

  test('what was acknowledged too late, on a socket that was gone, comes again on the next one, by the same id', async () => {
    const ids: (string | undefined)[] = [];
    let end: () => void = () => {};
    const intake: Intake = async ({ id }) => {
      ids.push(id);
      if (ids.length > 1) return 'duplicate';
      await new Promise<void>((resolve) => {
        end = resolve;
      });
      return 'accepted';
    };
    await scene(
      async ({ fake }) => {
        const { delivered } = fake.say({ channel: 'D1', text: 'once' });
        await until(() => ids.length === 1);
        fake.cutSockets();
        await until(() => fake.sockets.opened === 2);
        end();

        expect(await delivered).toMatchObject({ isAcknowledged: true });
        expect(new Set(ids).size).toBe(1);
        expect(ids.length).toBeGreaterThan(1);
      },
      {},
      { intake, ackMs: 3_000 },
    );
  });

  test('closes its connection when the leadership is lost, and never connects again', () =>
    scene(async ({ fake, lead, logged }) => {
      lead.lose();
      await until(() => fake.sockets.open === 0);
      await sleep(1_300);

      expect(fake.sockets.opened).toBe(1);
      expect(logged).toEqual([]);
    }));

  test('does not connect when the leadership is lost already', async () => {
    const fake = await FakeSlack.start();
    const lead = new TestLead();
    lead.lose();
    const provider = slack({ ...TOKENS, apiUrl: fake.apiUrl });

    await expect(provider.start(async () => 'accepted', lead)).rejects.toThrow('may connect');
    await provider.stop();
    expect(fake.calls).toEqual([]);
    await fake.close();
  });

  test('stop closes the connection, after what was being taken in is acknowledged', async () => {
    let end: (() => void) | undefined;
    const intake: Intake = () =>
      new Promise((resolve) => {
        end = () => resolve('accepted');
      });
    await scene(
      async ({ fake, provider }) => {
        const { delivered } = fake.say({ channel: 'D1', text: 'late' });
        await until(() => end !== undefined);
        setTimeout(() => end?.(), 100);
        await provider.stop();

        // The other end hears of it a moment later than this one.
        await until(() => fake.sockets.open === 0);
        expect(await delivered).toMatchObject({ isAcknowledged: true, attempts: 1 });
      },
      {},
      { intake, ackMs: 3_000 },
    );
  });

  test('a deaf other end does not keep stop for long', () =>
    scene(async ({ fake, provider }) => {
      fake.stallSockets(6_000);
      const sinceMs = Date.now();
      await provider.stop();

      expect(Date.now() - sinceMs).toBeLessThan(4_000);
    }));

  test('what is not taken in is not acknowledged, and comes again; logs name no text', async () => {
    let times = 0;
    const intake: Intake = async () => {
      times += 1;
      if (times === 1) throw new CoordinationUnavailableError('unavailable', 'away, with planted text');
      return 'accepted';
    };
    await scene(
      async ({ fake, logged }) => {
        const { delivered } = fake.say({ channel: 'D1', text: 'planted text' });

        expect(await delivered).toMatchObject({ isAcknowledged: true, attempts: 2 });
        expect(logged.join()).toContain('unavailable');
        expect(logged.join()).not.toContain('planted');
      },
      {},
      { intake },
    );
  });

  test('a start whose connection does not come about rejects, so that another replica may try', async () => {
    const fake = await FakeSlack.start();
    fake.refuse('apps.connections.open', 'invalid_auth');
    const provider = slack({ ...TOKENS, apiUrl: fake.apiUrl });

    await expect(provider.start(async () => 'accepted', new TestLead())).rejects.toThrow('invalid_auth');
    await provider.stop();
    await fake.close();
  });
});

describe.concurrent('what Slack is answered at once', () => {
  const answer: SlackOptions['answer'] = ({ kind, raw, text }) => {
    const body = raw as { type?: string; value?: string; view?: { state?: { values?: { age?: string } } } };
    if (body.type === 'block_suggestion') {
      return { options: [{ text: { type: 'plain_text', text: `${body.value}!` }, value: '1' }] };
    }
    if (kind === 'view' && Number.isNaN(Number(body.view?.state?.values?.age))) {
      return { response_action: 'errors', errors: { age: 'No number' } };
    }
    if (text === '/slow') return sleep(2_500, {}, { ref: false });
    return kind === 'command' ? { text: 'On it.' } : undefined;
  };

  test('a command, a menu, a modal that is wrong and one that is right; the turn of each comes later', () =>
    scene(
      async ({ fake, heard }) => {
        expect((await fake.command({ command: '/go', channel: 'C1' })).answer).toEqual({ text: 'On it.' });
        expect((await fake.options({ actionId: 'menu', channel: 'C1', value: 'a' })).answer).toMatchObject({
          options: [{ value: '1' }],
        });
        expect((await fake.submit({ callbackId: 'form', values: { age: 'x' } })).answer).toMatchObject({
          response_action: 'errors',
        });
        expect(heard).toEqual(['/go']);

        expect(await fake.submit({ callbackId: 'form', values: { age: '7' } })).toMatchObject({ isAcknowledged: true });
        expect(await fake.action({ actionId: 'press', channel: 'D1', value: 'yes' })).toMatchObject({
          isAcknowledged: true,
        });
        expect(heard).toEqual(['/go', 'form', 'yes']);
      },
      { answer },
    ));

  test('a hook that takes too long takes nothing in, and Slack shows its own error', () =>
    scene(
      async ({ fake, heard, logged }) => {
        expect((await fake.command({ command: '/slow', channel: 'C1' })).isAcknowledged).toBe(false);
        await until(() => logged.length === 1);
        expect(heard).toEqual([]);
      },
      { answer },
      { ackMs: 1_000 },
    ));

  test('a command is acknowledged at once, though its turn runs on; the reply comes when the turn says so', async () => {
    const fake = await FakeSlack.start();
    const bot = new Bot({ provider: slack({ ...TOKENS, apiUrl: fake.apiUrl }), log: () => {} });
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    bot.use(async (ctx) => {
      await gate;
      await ctx.reply(`done: ${ctx.message.text}`);
    });
    await bot.start();

    expect(await fake.command({ command: '/go', channel: 'C1', text: 'far' })).toMatchObject({ isAcknowledged: true });
    expect(fake.posted('C1')).toEqual([]);
    go();
    await until(() => fake.posted('C1').length === 1);
    await bot.stop();
    expect(fake.posted('C1')).toEqual(['done: /go far']);
    await fake.close();
  });

  test('without a hook menus have no options, and everything else is answered empty', () =>
    scene(async ({ fake, heard }) => {
      expect((await fake.options({ actionId: 'menu', channel: 'C1' })).answer).toEqual({ options: [] });
      expect((await fake.submit({ callbackId: 'form' })).answer).toEqual({});
      expect(heard).toEqual(['form']);
    }));
});
