// The binding, with both majors of Bolt and a fake of Slack, in one process.
import { ConfigError, CoordinationUnavailableError } from '@botmesh/core';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { FakeSlack, type FakeSlackOptions, signRequest } from '@botmesh/slack/testing';
import * as bolt5 from '@slack/bolt';
import * as bolt4 from 'bolt4';
import { afterEach, describe, expect, test } from 'vitest';
import { type MeshOptions, mesh } from './index.js';

type App = bolt5.App;
type Bolt = typeof bolt5;

const majors: [string, Bolt][] = [
  ['Bolt 5', bolt5],
  ['Bolt 4', bolt4 as unknown as Bolt],
];

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function fakeSlack(options: FakeSlackOptions = {}): Promise<FakeSlack> {
  const slack = await FakeSlack.start({ retryMs: [20, 20, 20, 20, 20], ...options });
  ends.push(() => slack.close());
  return slack;
}

/** Quiet: what is said is looked at where it matters. */
function told(): { log: (line: string) => void; lines: string[] } {
  const lines: string[] = [];
  return { lines, log: (line) => void lines.push(line) };
}

function appOf({ App, LogLevel }: Bolt, slack: FakeSlack, options: object = {}): App {
  const quiet = {
    debug() {},
    info() {},
    warn() {},
    error() {},
    setLevel() {},
    getLevel: () => LogLevel.ERROR,
    setName() {},
  };
  const clientOptions = { slackApiUrl: slack.apiUrl, retryConfig: { retries: 0 } };
  const known = { token: 'xoxb-fake', botId: 'B00FAKEBOT', botUserId: 'U00FAKEBOT' };
  return new App({ ...known, logger: quiet, clientOptions, ...options });
}

function socketAppOf(bolt: Bolt, slack: FakeSlack): App {
  return appOf(bolt, slack, { appToken: 'xapp-fake', socketMode: true });
}

type Choice = Partial<MeshOptions> & { app?: App; setup?: (app: App) => void };

/** A replica that has joined. */
async function replicaOf(bolt: Bolt, slack: FakeSlack, { app = socketAppOf(bolt, slack), setup, ...rest }: Choice) {
  setup?.(app);
  const coordinator = new MemoryCoordinator({ maxAttempts: 3 });
  const replica = mesh(app, { coordinator, retryDelayMs: 1, log: () => {}, onError: () => {}, ...rest });
  ends.push(() => replica.stop({ drainMs: 0 }));
  await app.start();
  return { app, replica };
}

async function until(what: string, holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    if (i > 500) throw new Error(`It did not come about in time: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

describe.each(majors)('%s on a mesh', (_name, bolt) => {
  test('a message is acknowledged while the one before it still runs, and is handled after it', async () => {
    const slack = await fakeSlack();
    const { opened, open } = gate();
    const done: string[] = [];
    const setup = (app: App): void =>
      app.message(async ({ message, say }) => {
        const { text = '' } = message as { text?: string };
        if (text === 'one') await opened;
        done.push(text);
        await say(`heard ${text}`);
      });
    await replicaOf(bolt, slack, { setup });

    const first = await slack.say({ channel: 'D1', text: 'one' }).delivered;
    const second = await slack.say({ channel: 'D1', text: 'two' }).delivered;
    const other = await slack.say({ channel: 'D2', text: 'three' }).delivered;

    expect([first, second, other].map(({ isAcknowledged, attempts }) => [isAcknowledged, attempts])).toEqual(
      Array(3).fill([true, 1]),
    );
    await until('the other chat is handled', () => done.length === 1);
    expect(done).toEqual(['three']);
    open();
    await until('all are handled', () => slack.posted('D1').length === 2);
    expect(slack.posted('D1')).toEqual(['heard one', 'heard two']);
  });

  test('a message under another wrapper is handled once, and the mention that goes along with it too', async () => {
    const slack = await fakeSlack();
    const heard: string[] = [];
    const setup = (app: App): void => {
      app.message(async () => void heard.push('message'));
      app.event('app_mention', async () => void heard.push('mention'));
    };
    await replicaOf(bolt, slack, { setup });
    const { payload, delivered } = slack.say({ channel: 'C1', text: 'hi' });
    await delivered;

    const again = await slack.deliver('events_api', { ...payload, event_id: 'EvOther' });
    const { channel_type: _, ...event } = payload.event as Record<string, unknown>;
    await slack.deliver('events_api', { ...payload, event_id: 'EvMention', event: { ...event, type: 'app_mention' } });
    await slack.say({ channel: 'C1', text: 'last' }).delivered;

    expect(again.isAcknowledged).toBe(true);
    await until('the last is handled', () => heard.length === 3);
    expect(heard.toSorted()).toEqual(['mention', 'message', 'message']);
  });

  test('a handler that throws is tried again in its place, then its message is kept aside', async () => {
    const slack = await fakeSlack();
    const heard: unknown[] = [];
    const setup = (app: App): void =>
      app.message(async ({ message, context }) => {
        const { text } = message as { text?: string };
        heard.push([text, context.botmesh.attempt]);
        if (text === 'bad') throw new Error('as planned');
      });
    const { replica } = await replicaOf(bolt, slack, { setup });

    await slack.say({ channel: 'D1', text: 'bad' }).delivered;
    await slack.say({ channel: 'D1', text: 'good' }).delivered;

    await until('the good one is handled', () => heard.length === 4);
    expect(heard).toEqual([
      ['bad', 1],
      ['bad', 2],
      ['bad', 3],
      ['good', 1],
    ]);
    expect(await replica.parked()).toMatchObject([{ chat: 'D1' }]);
  });

  test('a command and a button are acknowledged at once and handled in the turn of their chat', async () => {
    const slack = await fakeSlack();
    const { opened, open } = gate();
    const done: string[] = [];
    const setup = (app: App): void => {
      app.message(async () => {
        await opened;
        done.push('message');
      });
      app.command('/go', async ({ ack, respond }) => {
        await ack('on its way');
        done.push('command');
        await respond('there');
      });
      app.action('press', async ({ ack }) => {
        await ack();
        done.push('press');
      });
    };
    await replicaOf(bolt, slack, { setup, keys: 'channel' });
    await slack.say({ channel: 'C1', text: 'hi' }).delivered;

    expect(await slack.command({ command: '/go', channel: 'C1' })).toMatchObject({ isAcknowledged: true, answer: {} });
    expect(await slack.action({ actionId: 'press', channel: 'C1' })).toMatchObject({ isAcknowledged: true });

    expect(done).toEqual([]);
    open();
    await until('all are handled', () => done.length === 3);
    expect(done).toEqual(['message', 'command', 'press']);
    const answers = slack.calls.filter(({ method }) => method === 'response_url');
    expect(answers.map(({ args }) => args.text)).toEqual(['on its way', 'there']);
  });

  test('what Slack must be answered runs at once: menus, and what atOnce names', async () => {
    const slack = await fakeSlack();
    const errors: unknown[] = [];
    const setup = (app: App): void => {
      app.options('menu', ({ ack }) => ack({ options: [] }));
      app.view('strict', ({ ack }) => ack({ response_action: 'errors', errors: { name: 'too short' } }));
      app.view('lazy', ({ ack }) => ack({ response_action: 'clear' }));
    };
    await replicaOf(bolt, slack, { setup, atOnce: ['strict'], onError: (error) => errors.push(error) });

    expect(await slack.options({ actionId: 'menu', channel: 'C1' })).toMatchObject({ answer: { options: [] } });
    expect(await slack.submit({ callbackId: 'strict' })).toMatchObject({ answer: { response_action: 'errors' } });
    expect(await slack.submit({ callbackId: 'lazy' })).toMatchObject({ isAcknowledged: true, answer: {} });
    await until('the answer that came too late is an error', () => errors.length > 0);
    expect(errors[0]).toMatchObject({ code: 'config' });
    expect(String(errors[0])).toContain('lazy');
  });

  test('two replicas have one socket, and the second has it when the first has closed it', async () => {
    const slack = await fakeSlack();
    const inMesh = new MemoryMesh();
    const heard: string[] = [];
    const launch = (name: string) =>
      replicaOf(bolt, slack, {
        coordinator: new MemoryCoordinator({ mesh: inMesh, replicaId: name }),
        setup: (app) =>
          app.message(async ({ message }) => void heard.push(`${name} ${(message as { text?: string }).text}`)),
      });
    const { app: first } = await launch('a');
    await until('the first is connected', () => slack.sockets.open === 1);
    await launch('b');
    await slack.say({ channel: 'D1', text: 'one' }).delivered;

    // Slack takes its time to close it.
    slack.stallSockets(400);
    await first.stop();
    await slack.say({ channel: 'D1', text: 'two' }).delivered;

    await until('both are handled', () => heard.length === 2);
    expect(heard).toEqual(['a one', 'b two']);
    expect(slack.sockets).toEqual({ open: 1, most: 1, opened: 2 });
  });

  test('an app that lost its turn sends nothing', async () => {
    const slack = await fakeSlack();
    const coordinator = new MemoryCoordinator();
    const { opened, open } = gate();
    const tries: unknown[] = [];
    const setup = (app: App): void =>
      app.message(async ({ say, client, context }) => {
        await opened;
        const fails = (call: () => Promise<unknown>) => call().catch((error: Error) => tries.push(error.name));
        await fails(() => say('late'));
        await fails(() => client.chat.postMessage({ channel: 'D1', text: 'late' }));
        await fails(() => client.apiCall('chat.postMessage', { channel: 'D1', text: 'late' }));
        await fails(async () => context.botmesh.assertHeld());
      });
    await replicaOf(bolt, slack, { coordinator, setup });
    await slack.say({ channel: 'D1', text: 'hi' }).delivered;

    coordinator.crash();
    open();

    await until('all tries have failed', () => tries.length === 4);
    expect(tries).toEqual(Array(4).fill('LeaseLostError'));
    expect(slack.posted('D1')).toEqual([]);
  });

  test('a start that Slack refuses is tried again later, and does not spin', async () => {
    const slack = await fakeSlack();
    slack.refuse('apps.connections.open', 'invalid_auth', 1);
    const errors: unknown[] = [];
    const fromMs = Date.now();
    await replicaOf(bolt, slack, { onError: (error) => errors.push(error) });

    await until('it is connected', () => slack.sockets.open === 1);
    expect(Date.now() - fromMs).toBeGreaterThan(900);
    expect(slack.calls.filter(({ method }) => method === 'apps.connections.open')).toHaveLength(2);
    expect(errors).toHaveLength(1);
  });

  describe('over HTTP', () => {
    const secret = 'secret';

    async function httpReplica(choice: Choice = {}) {
      const api = await fakeSlack();
      const port = await freePort();
      const app = appOf(bolt, api, { signingSecret: secret, port });
      const { replica } = await replicaOf(bolt, api, { ...choice, app });
      const url = `http://127.0.0.1:${port}/slack/events`;
      const slack = await fakeSlack({ signingSecret: secret, eventsUrl: url, retryMs: [] });
      return { slack, app, replica, url };
    }

    test('200 comes when the message is taken in, before it is handled', async () => {
      const { opened, open } = gate();
      const done: unknown[] = [];
      const setup = (app: App): void =>
        app.message(async ({ message }) => {
          await opened;
          done.push((message as { text?: string }).text);
        });
      const { slack } = await httpReplica({ setup });

      const answers = await Promise.all(['a', 'b'].map((text) => slack.say({ channel: 'D1', text }).delivered));

      expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      expect(done).toEqual([]);
      open();
      await until('both are handled', () => done.length === 2);
    });

    test('503 comes when the message is not taken in, and it counts when it comes again', async () => {
      const heard: unknown[] = [];
      const coordinator = new MemoryCoordinator();
      const accept = coordinator.accept.bind(coordinator);
      let isDown = true;
      coordinator.accept = (key, message) => {
        if (isDown) return Promise.reject(new CoordinationUnavailableError('unavailable', 'down'));
        return accept(key, message);
      };
      const { slack } = await httpReplica({ coordinator, setup: (app) => app.message(async () => void heard.push(1)) });

      const said = slack.say({ channel: 'D1', text: 'hi' });
      expect(await said.delivered).toMatchObject({ status: 503 });
      isDown = false;
      expect(await slack.deliver('events_api', said.payload)).toMatchObject({ status: 200 });

      await until('it is handled', () => heard.length === 1);
    });

    test('401 for a wrong signature and an old time, 413 for a body of more than 4 MiB', async () => {
      const { slack, url } = await httpReplica();
      const { payload } = slack.say({ channel: 'D1', text: 'hi' });
      const body = JSON.stringify(payload);
      const status = async (text: string, headers: Record<string, string>): Promise<number> => {
        const all = { 'content-type': 'application/json', ...headers };
        return (await fetch(url, { method: 'POST', headers: all, body: text })).status;
      };

      expect(await status(body, signRequest('wrong', body, Date.now()))).toBe(401);
      expect(await status(body, signRequest(secret, body, Date.now() - 301_000))).toBe(401);
      expect(await status(body, {})).toBe(401);
      const long = JSON.stringify({ ...payload, padding: 'x'.repeat(5_000_000) });
      expect(await status(long, signRequest(secret, long, Date.now()))).toBe(413);
    });

    test('a memory coordinator behind HTTP is warned of, loudly and once', async () => {
      const { log, lines } = told();

      await httpReplica({ log });

      expect(lines.filter((line) => line.includes('WARNING'))).toHaveLength(1);
      expect(lines[0]).toContain('memory');
    });
  });
});

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

describe('bad input', () => {
  const slackless = { apiUrl: 'http://127.0.0.1:9/api/' } as FakeSlack;
  const app = (): App => appOf(bolt5, slackless, { appToken: 'xapp-fake', socketMode: true });
  const options = (): MeshOptions => ({ coordinator: new MemoryCoordinator(), log: () => {} });

  function refusal(act: () => unknown): string {
    try {
      act();
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigError);
      return (error as Error).message;
    }
    return 'none';
  }

  test('an option, a coordinator or an app that cannot work is refused by name', () => {
    expect(refusal(() => mesh(app(), { ...options(), key: 'channel' } as never))).toContain("no option 'key'");
    expect(refusal(() => mesh(app(), { ...options(), keys: 'user' as never }))).toContain('keys');
    expect(refusal(() => mesh(app(), { ...options(), atOnce: 'strict' as never }))).toContain('atOnce');
    expect(refusal(() => mesh(app(), {} as never))).toContain('no coordinator');
    expect(refusal(() => mesh(bolt5.App as never, options()))).toContain('found function');
    expect(refusal(() => mesh({ processEvent() {}, client: {} } as never, options()))).toContain('receiver');
  });

  test('two bindings on one app are refused, and the first is as it was', async () => {
    const slack = await fakeSlack();
    const one = socketAppOf(bolt5, slack);
    ends.push(() => one.stop());
    mesh(one, options());

    expect(refusal(() => mesh(one, options()))).toContain('bound already');
    await one.start();
    await until('the first connects', () => slack.sockets.open === 1);
  });

  test('keys that are none are told of, and what they are of is not acknowledged', async () => {
    const slack = await fakeSlack({ ackMs: 50, retryMs: [0] });
    const { log, lines } = told();
    await replicaOf(bolt5, slack, { log, keys: () => '' });

    expect(await slack.say({ channel: 'C1', text: 'hi' }).delivered).toMatchObject({ isAcknowledged: false });
    expect(lines.filter((line) => line.includes('cannot be taken in'))).toHaveLength(2);
  });

  test('a Bolt outside of the range is refused by its number', () => {
    const old = app();
    const client = old.client as unknown as { defaultHeaders: Record<string, string> };
    client.defaultHeaders = { 'User-Agent': '@slack:bolt/3.22.0 @slack:web-api/6.0.0 node/20.0.0' };

    expect(refusal(() => mesh(old, options()))).toContain('@slack/bolt 3.22.0');
  });

  test('an app that was started before is refused', async () => {
    const slack = await fakeSlack();
    const started = socketAppOf(bolt5, slack);
    await started.start();
    ends.push(() => started.stop());

    expect(refusal(() => mesh(started, options()))).toContain('before app.start()');
  });

  test('an event without a channel is handled, in the queue of its user', async () => {
    const slack = await fakeSlack();
    const chats: string[] = [];
    const { replica } = await replicaOf(bolt5, slack, { setup: (each) => each.event('team_join', async () => {}) });
    replica.on('ended', ({ chat }) => chats.push(chat));

    await slack.event({ type: 'team_join', user: { id: 'U7' }, event_ts: '1.0' });
    await slack.event({ type: 'email_domain_changed', event_ts: '2.0' });

    await until('both have ended', () => chats.length === 2);
    expect(chats).toEqual(['user:U7', 'team:T00FAKE']);
  });

  test('an unknown kind is taken in, told of once, and blocks nobody', async () => {
    const slack = await fakeSlack();
    const { log, lines } = told();
    const heard: string[] = [];
    await replicaOf(bolt5, slack, { log, setup: (each) => each.message(async () => void heard.push('message')) });

    for (let i = 0; i < 2; i++) {
      const found = await slack.deliver('interactive', { type: 'holo_gesture', user: { id: 'U1' } });
      expect(found.isAcknowledged).toBe(true);
    }
    await slack.event({ type: 'event_of_the_future', channel: 'C1', event_ts: '1.0' });
    await slack.say({ channel: 'C1', text: 'hi' }).delivered;

    await until('the message is handled', () => heard.length === 1);
    expect(lines.filter((line) => line.includes('holo_gesture'))).toHaveLength(1);
  });
});
