// The fake, checked by the real clients: two majors of Bolt, and the Web API client that each brings.
import * as bolt5 from '@slack/bolt';
import * as bolt4 from 'bolt4';
import { afterEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { bodyOf } from './EventsApi.js';
import { FakeSlack, type FakeSlackOptions } from './FakeSlack.js';
import { callbackOf, type Payload } from './payloads.js';
import { signRequest } from './sign-request.js';

type App = bolt5.App;
type AppOptions = ConstructorParameters<typeof bolt5.App>[0];

/** Both majors look alike as far as is used here. */
const majors: [string, typeof bolt5][] = [
  ['Bolt 5', bolt5],
  ['Bolt 4', bolt4 as unknown as typeof bolt5],
];

const ends: (() => unknown)[] = [];

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function fakeSlack(options: FakeSlackOptions = {}): Promise<FakeSlack> {
  const slack = await FakeSlack.start({ retryMs: [0, 0, 0], ...options });
  ends.push(() => slack.close());
  return slack;
}

function appOn(slack: FakeSlack, { App, LogLevel }: typeof bolt5, options: AppOptions = {}): App {
  return new App({
    token: 'xoxb-fake',
    logLevel: LogLevel.ERROR,
    clientOptions: { slackApiUrl: slack.apiUrl },
    ...options,
  });
}

/** Its sockets are back soon after they were closed. */
async function socketApp(slack: FakeSlack, bolt: typeof bolt5): Promise<App> {
  const receiver = new bolt.SocketModeReceiver({
    appToken: 'xapp-fake',
    logLevel: bolt.LogLevel.ERROR,
    clientPingTimeout: 300,
    installerOptions: { clientOptions: { slackApiUrl: slack.apiUrl } },
  });
  const app = appOn(slack, bolt, { receiver });
  await app.start();
  ends.push(() => app.stop());
  return app;
}

async function until(holds: () => boolean): Promise<void> {
  for (let i = 0; !holds(); i++) {
    if (i > 500) throw new Error('It did not come about in time.');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

describe.each(majors)('%s in Socket Mode', (_name, bolt) => {
  test('hears what a user writes, and its reply stands in the channel', async () => {
    const slack = await fakeSlack();
    const app = await socketApp(slack, bolt);
    app.message('hi', async ({ say, message }) => {
      await say({ text: 'Hello!', thread_ts: message.ts });
    });

    const { ts, delivered } = slack.say({ channel: 'C1', text: 'hi' });

    expect(await delivered).toMatchObject({ isAcknowledged: true, attempts: 1 });
    await until(() => slack.posted('C1').length === 1);
    expect(slack.messages('C1', ts)).toMatchObject([{ text: 'Hello!', by: 'bot' }]);
  });

  test('hears commands, buttons, menus and views, and answers those that wait for an answer', async () => {
    const slack = await fakeSlack();
    const app = await socketApp(slack, bolt);
    const heard: string[] = [];
    app.command('/deploy', async ({ ack, command, client }) => {
      await ack(`deploying ${command.text}`);
      await client.views.open({ trigger_id: command.trigger_id, view: { type: 'modal' } as never });
    });
    app.action('go', async ({ ack, respond }) => {
      await ack();
      heard.push('go');
      await respond('gone');
    });
    app.options('menu', ({ ack }) => ack({ options: [] }));
    app.view('form', ({ ack }) => ack({ response_action: 'errors', errors: { name: 'too short' } }));

    expect(await slack.command({ command: '/deploy', channel: 'C1', text: 'x' })).toMatchObject({
      answer: { text: 'deploying x' },
    });
    expect(await slack.action({ actionId: 'go', channel: 'C1' })).toMatchObject({ isAcknowledged: true });
    expect(await slack.options({ actionId: 'menu', channel: 'C1' })).toMatchObject({ answer: { options: [] } });
    expect(await slack.submit({ callbackId: 'form' })).toMatchObject({ answer: { response_action: 'errors' } });
    await until(() => slack.calls.some(({ method }) => method === 'response_url'));
    expect(heard).toEqual(['go']);
    expect(slack.calls.find(({ method }) => method === 'views.open')).toMatchObject({ error: undefined });
  });

  test('is delivered again, under a new envelope, what it did not acknowledge in time', async () => {
    const slack = await fakeSlack({ ackMs: 100 });
    const app = await socketApp(slack, bolt);
    const seen: unknown[] = [];
    const receiver = (app as unknown as { receiver: bolt5.SocketModeReceiver }).receiver;
    receiver.init({
      processEvent: async (event: bolt5.ReceiverEvent) => {
        seen.push(event.retryNum);
        if (seen.length === 3) await event.ack();
      },
    } as never);

    const { delivered } = slack.say({ channel: 'C1', text: 'hi' });

    expect(await delivered).toMatchObject({ isAcknowledged: true, attempts: 3 });
    expect(seen).toEqual([0, 1, 2]);
  });

  test('opens another socket when it is told to, and one at any moment', async () => {
    const slack = await fakeSlack();
    await socketApp(slack, bolt);

    slack.disconnect('refresh_requested');
    await until(() => slack.sockets.opened === 2);

    await until(() => slack.sockets.open === 1);
    expect(slack.sockets).toEqual({ open: 1, most: 1, opened: 2 });
    // A client that is stopped before it has heard the greeting rejects where nobody listens: by then it has.
    expect((await slack.say({ channel: 'C1', text: 'hi' }).delivered).isAcknowledged).toBe(true);
  });

  test('of two apps each envelope goes to one', async () => {
    const slack = await fakeSlack();
    const heard = [0, 0];
    for (const at of [0, 1]) {
      const app = await socketApp(slack, bolt);
      app.message(async () => {
        heard[at]! += 1;
      });
    }

    await Promise.all(['a', 'b', 'c', 'd'].map((text) => slack.say({ channel: 'C1', text }).delivered));

    await until(() => heard[0]! + heard[1]! === 4);
    expect(heard).toEqual([2, 2]);
    expect(slack.sockets.most).toBe(2);
  });
});

describe.each(majors)('%s over HTTP', (_name, bolt) => {
  async function httpApp(options: FakeSlackOptions = {}): Promise<{ slack: FakeSlack; app: App; url: string }> {
    // The port is known only when the app listens, so the app is asked for it first.
    const placeholder = await fakeSlack();
    const app = appOn(placeholder, bolt, { signingSecret: 'secret' });
    const server = (await app.start({ port: 0, host: '127.0.0.1' } as never)) as { address(): { port: number } };
    ends.push(() => app.stop());
    const url = `http://127.0.0.1:${server.address().port}/slack/events`;
    const slack = await fakeSlack({ signingSecret: 'secret', eventsUrl: url, ...options });
    return { slack, app, url };
  }

  test('believes the signature of the fake, and hears events, commands and buttons', async () => {
    const { slack, app } = await httpApp();
    const heard: string[] = [];
    app.message(async ({ message }) => void heard.push(String((message as { text?: string }).text)));
    app.command('/deploy', async ({ ack, command }) => {
      heard.push(command.text);
      await ack({ text: 'ok' });
    });
    app.action('go', async ({ ack }) => {
      heard.push('go');
      await ack();
    });

    expect(await slack.say({ channel: 'C1', text: 'hi' }).delivered).toMatchObject({ status: 200, attempts: 1 });
    expect(await slack.command({ command: '/deploy', channel: 'C1', text: 'x' })).toMatchObject({
      answer: { text: 'ok' },
    });
    expect(await slack.action({ actionId: 'go', channel: 'C1' })).toMatchObject({ status: 200 });
    expect(heard).toEqual(['hi', 'x', 'go']);
  });

  test('refuses another secret', async () => {
    const { slack } = await httpApp({ signingSecret: 'another' });

    const found = await slack.say({ channel: 'C1', text: 'hi' }).delivered;

    expect(found).toMatchObject({ isAcknowledged: false, status: 401, attempts: 4 });
  });

  test('refuses an old time', async () => {
    const { url } = await httpApp();
    const body = bodyOf('events_api', callbackOf({ type: 'message' }, { eventId: 'Ev1', ts: '1.0' }));
    const headers = { 'content-type': 'application/json', ...signRequest('secret', body, Date.now() - 400_000) };

    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(401);
  });
});

describe.each(majors)('the Web API client of %s', (_name, bolt) => {
  const clientOf = (slack: FakeSlack): bolt5.webApi.WebClient =>
    new bolt.webApi.WebClient('xoxb-fake', {
      slackApiUrl: slack.apiUrl,
      logLevel: bolt.LogLevel.ERROR,
      retryConfig: { retries: 1, minTimeout: 1 },
    });

  test('posts, changes, deletes and reacts', async () => {
    const slack = await fakeSlack();
    const client = clientOf(slack);

    expect(await client.auth.test()).toMatchObject({ user_id: 'U00FAKEBOT', bot_id: 'B00FAKEBOT' });
    const { ts = '' } = await client.chat.postMessage({ channel: 'C1', text: 'one' });
    await client.chat.update({ channel: 'C1', ts, text: 'two' });
    await client.reactions.add({ channel: 'C1', timestamp: ts, name: 'eyes' });
    await expect(client.reactions.add({ channel: 'C1', timestamp: ts, name: 'eyes' })).rejects.toMatchObject({
      data: { error: 'already_reacted' },
    });
    expect(slack.posted('C1')).toEqual(['two']);
    expect(await client.conversations.history({ channel: 'C1' })).toMatchObject({ messages: [{ text: 'two' }] });
    await client.chat.delete({ channel: 'C1', ts });
    expect(slack.messages('C1')).toEqual([]);
    await expect(client.chat.delete({ channel: 'C1', ts })).rejects.toMatchObject({
      data: { error: 'message_not_found' },
    });
  });

  test('waits for as long as a limit says, and sends again', async () => {
    const slack = await fakeSlack();
    slack.limit('chat.postMessage', 1);
    const fromMs = Date.now();

    await clientOf(slack).chat.postMessage({ channel: 'C1', text: 'one' });

    expect(Date.now() - fromMs).toBeGreaterThanOrEqual(990);
    const calls = slack.calls.filter(({ method }) => method === 'chat.postMessage');
    expect(calls.map(({ error }) => error)).toEqual(['ratelimited', undefined]);
  });

  test('is refused without content, without a token, with the wrong token, and where a test says so', async () => {
    const slack = await fakeSlack();
    const client = clientOf(slack);
    const errorOf = (call: Promise<unknown>): Promise<unknown> =>
      call.then(
        () => undefined,
        (error: { data?: { error?: string } }) => error.data?.error,
      );
    slack.refuse('users.info', 'user_not_found');

    expect(await errorOf(client.chat.postMessage({ channel: 'C1' } as never))).toBe('no_text');
    expect(await errorOf(client.apps.connections.open({}))).toBe('not_allowed_token_type');
    expect(await errorOf(client.views.open({ trigger_id: 'none', view: {} as never }))).toBe('invalid_trigger_id');
    expect(await errorOf(client.users.info({ user: 'U1' }))).toBe('user_not_found');
    expect(await errorOf(client.auth.test({ token: 'nonsense' }))).toBe('invalid_auth');
  });

  test('gets ok from a method that the fake does not know, and the call is on record', async () => {
    const slack = await fakeSlack();

    expect(await clientOf(slack).apiCall('bookmarks.add', { channel_id: 'C1' })).toMatchObject({ ok: true });

    expect(slack.calls).toMatchObject([{ method: 'bookmarks.add', args: { channel_id: 'C1' }, token: 'xoxb-fake' }]);
  });
});

describe('the fake', () => {
  test('gives an event up after its last retry, and a command at once', async () => {
    const slack = await fakeSlack({ eventsUrl: 'http://127.0.0.1:9/nobody' });
    const payload: Payload = callbackOf({ type: 'team_join' }, { eventId: 'Ev1', ts: '1.0' });

    expect(await slack.deliver('events_api', payload)).toMatchObject({ isAcknowledged: false, attempts: 4, status: 0 });
    expect(await slack.command({ command: '/x', channel: 'C1' })).toMatchObject({ isAcknowledged: false, attempts: 1 });
  });

  test('lets nobody connect without a ticket, or twice with one', async () => {
    const slack = await fakeSlack();
    const answer = await fetch(`${slack.apiUrl}apps.connections.open`, {
      method: 'POST',
      headers: { authorization: 'Bearer xapp-fake' },
    });
    const { url } = (await answer.json()) as { url: string };
    const connect = (to: string): Promise<string> =>
      new Promise((resolve) => {
        const socket = new WebSocket(to);
        socket.addEventListener('message', () => {
          resolve('hello');
          socket.close();
        });
        socket.addEventListener('error', () => resolve('refused'));
      });

    expect(await connect(url.replace(/ticket=.*/, 'ticket=guessed'))).toBe('refused');
    expect(await connect(url)).toBe('hello');
    expect(await connect(url)).toBe('refused');
  });

  test('cuts off who does not answer its pings', async () => {
    const slack = await fakeSlack({ pingMs: 20 });
    await socketApp(slack, bolt5);

    await new Promise((resolve) => setTimeout(resolve, 120));
    expect(slack.sockets).toMatchObject({ open: 1, opened: 1 });
  });
});
