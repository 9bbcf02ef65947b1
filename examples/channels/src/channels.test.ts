// The same program on each platform, against a fake of it: order, press or write what is wanted, and hear how many that are.
import { type ChildProcess, spawn } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { FakeSlack } from '@botmesh/slack/testing';
import { FakeTelegram } from '@botmesh/telegram/testing';
import { buttonReply, change, FakeCloudApi, textMessage } from '@botmesh/whatsapp/testing';
import { describe, expect, test } from 'vitest';

const PROGRAM = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const TALK = ['Large or small?', 'Large it is. Orders: 1.', 'Small it is. Orders: 2.'];

/** The program, with these settings and nothing else of the environment. */
class Program implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
  out = '';
  err = '';

  constructor(env: Record<string, string>) {
    const { PATH = '' } = process.env;
    this.child = spawn(process.execPath, [PROGRAM], {
      env: { PATH, PORT: '0', DRAIN_MS: '5000', ...env },
      timeout: 60_000,
    });
    this.ended = new Promise((resolve) => this.child.once('close', (code) => resolve(code)));
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.out += text;
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.err += text;
    });
  }

  /** Where it listens, once it has started. */
  async url(): Promise<string> {
    await until(
      () => this.out.includes('started') || this.child.exitCode !== null,
      () => this.err,
    );
    const port = /listening on (\d+)/.exec(this.out)?.[1];
    if (port === undefined) throw new Error(`It does not listen: ${this.err}`);
    return `http://127.0.0.1:${port}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill('SIGTERM');
    await this.ended;
  }
}

async function until(holds: () => boolean, why = () => ''): Promise<void> {
  for (const untilMs = Date.now() + 15_000; !holds(); await new Promise((resolve) => setTimeout(resolve, 20))) {
    if (Date.now() > untilMs) throw new Error(`It did not come about in time. ${why()}`);
  }
}

describe.concurrent('the same program', () => {
  test('talks on a terminal', async () => {
    await using program = new Program({ CHANNEL: 'terminal' });
    program.child.stdin?.end('order\nlarge\nsmall\n');

    expect(await program.ended).toBe(0);
    expect(program.out.trim().split('\n')).toEqual(TALK);
  });

  test('talks on Telegram, by polling', async () => {
    await using fake = await FakeTelegram.start();
    await using program = new Program({
      CHANNEL: 'telegram',
      TELEGRAM_TOKEN: fake.token,
      TELEGRAM_API_ROOT: fake.apiRoot,
    });
    await program.url();
    fake.say(7, 'order');
    fake.press(7, 'large');
    fake.say(7, 'Small');

    await until(
      () => fake.textsTo(7).length === TALK.length,
      () => program.err,
    );
    expect(fake.textsTo(7)).toEqual(TALK);
    // The button stops waiting, though the handler has not seen to that.
    await fake.until('the button is answered', () => fake.calls.some(({ method }) => method === 'answerCallbackQuery'));
    expect(
      JSON.stringify(fake.calls.filter(({ method }) => method === 'sendMessage').map(({ payload }) => payload)),
    ).toContain('"callback_data":"large"');
  });

  test('talks on WhatsApp', async () => {
    await using fake = await FakeCloudApi.start();
    await using program = new Program({
      CHANNEL: 'whatsapp',
      WHATSAPP_TOKEN: fake.token,
      WHATSAPP_APP_SECRET: fake.appSecret,
      WHATSAPP_VERIFY_TOKEN: 'ours',
      WHATSAPP_API_URL: fake.url,
    });
    fake.webhooks = [`${await program.url()}/whatsapp`];
    const [number, person] = ['106540352242922', '16505551234'];
    const said = [textMessage(person, 'order'), buttonReply(person, 'large', 'Large'), textMessage(person, 'Small')];
    for (const each of said) await fake.deliver(change(number, { messages: [each] }));

    await until(
      () => fake.textsTo(person).length === TALK.length,
      () => program.err,
    );
    expect(fake.textsTo(person)).toEqual(TALK);
    expect(JSON.stringify(fake.sent[0]?.body)).toContain('"id":"large"');
  });

  test('talks on Slack, by a socket, and on calls', async () => {
    await using socket = await FakeSlack.start();
    const env = { CHANNEL: 'slack', SLACK_BOT_TOKEN: 'xoxb-fake', SLACK_API_URL: socket.apiUrl };
    await using bySocket = new Program({ ...env, SLACK_APP_TOKEN: 'xapp-fake' });
    await using byCalls = new Program({ ...env, SLACK_SIGNING_SECRET: socket.signingSecret });
    await bySocket.url();
    await using calls = await FakeSlack.start({ eventsUrl: `${await byCalls.url()}/slack` });
    for (const [fake, channel] of [
      [socket, 'D1'],
      [calls, 'D2'],
    ] as const) {
      await fake.say({ channel, text: 'order' }).delivered;
      await fake.action({ channel, actionId: 'large', value: 'large' });
      await fake.say({ channel, text: 'Small' }).delivered;

      await until(
        () => socket.posted(channel).length === TALK.length,
        () => bySocket.err + byCalls.err,
      );
      expect(socket.posted(channel)).toEqual(TALK);
    }
    expect(JSON.stringify(socket.calls.map(({ args }) => args))).toContain('"action_id":"large"');
  });

  test('answers probes, drains at SIGTERM, and says what is missing', async () => {
    await using fake = await FakeSlack.start();
    await using program = new Program({
      CHANNEL: 'slack',
      SLACK_BOT_TOKEN: 'xoxb-fake',
      SLACK_SIGNING_SECRET: 'secret',
      SLACK_API_URL: fake.apiUrl,
    });
    const url = await program.url();
    const statuses = await Promise.all(['/livez', '/readyz', '/slack'].map((path) => fetch(url + path)));
    expect(statuses.map(({ status }) => status)).toEqual([200, 200, 405]);
    program.child.kill('SIGTERM');
    expect(await program.ended).toBe(0);

    await using wrong = new Program({ CHANNEL: 'slack' });
    expect(await wrong.ended).toBe(1);
    expect(wrong.err).toContain('SLACK_BOT_TOKEN is not set');
  });
});
