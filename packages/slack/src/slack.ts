import { ConfigError, checkOptionNames, type Provider } from '@botmesh/core/spi';
import type { Answer } from './answer.js';
import { receiver } from './receive.js';
import { sender } from './send.js';
import { socketMode } from './socket-mode.js';
import { client } from './web-api.js';

/** The provider, and what can be done at Slack besides replying. */
export interface Slack extends Provider {
  /**
   * Any method of the Web API, at once: not paced, not on record and not repeated, as replies are. Resolves with what Slack
   * answered.
   *
   * @throws SlackError when Slack refused it, RateLimitedError when it was too much, DeliveryUnknownError when there was no answer
   */
  call(
    method: string,
    args?: Readonly<Record<string, unknown>>,
    options?: { signal?: AbortSignal },
  ): Promise<Readonly<Record<string, unknown>>>;
}

export interface SlackOptions {
  /** The bot's token, `xoxb-…`. */
  token: string;
  /** Verifies what Slack posts to `bot.webhook`. Several while it changes. Either this or `appToken`. */
  signingSecret?: string | readonly string[];
  /** The app's token, `xapp-…`: receives by Socket Mode, on one replica at a time. */
  appToken?: string;
  /** Says at once what a modal, a menu or a command is answered. See `Answer`. Default: nothing. */
  answer?: Answer;
  /** The only path that is answered. Default: every path. */
  path?: string;
  /** Longer bodies are refused with 413. Default 1,000,000. */
  maxBytes?: number;
  /** Where the Web API is. Default `https://slack.com/api/`. */
  apiUrl?: string;
  /** Where trouble with the socket is told. Default `console.warn`. */
  log?: (line: string) => void;
}

const NAMES: { readonly [Name in keyof Required<SlackOptions>]: true } = {
  token: true,
  signingSecret: true,
  appToken: true,
  answer: true,
  path: true,
  maxBytes: true,
  apiUrl: true,
  log: true,
};

/**
 * Slack, by its Events API for `bot.webhook`, or by Socket Mode: events, commands and interactions. A thread of a channel is a
 * chat, and so is what stands outside of threads in direct messages. Slack is answered when a message is taken in, before it is
 * handled. In Socket Mode one replica has the socket, and every replica handles.
 *
 * Slack takes no idempotency key: a reply that got no answer may have been posted. It is counted as unknown, and
 * `onUnknownSend` of the Bot decides.
 *
 * @throws ConfigError naming the option that cannot work
 */
export function slack(options: SlackOptions): Slack {
  const { token, appToken, secrets, path, maxBytes, apiUrl, answer: hook, log } = settle(options);
  const api = client(token, apiUrl);
  const call: Slack['call'] = (method, args = {}, { signal = new AbortController().signal } = {}) =>
    api(method, args, signal);
  // Slack limits a channel, not each of its threads.
  const placeOf = (chat: string): string => (chat.startsWith('user:') ? chat : (chat.split(':')[0] ?? chat));
  const sending = { name: 'slack', send: sender(api), call, placeOf };
  if (appToken !== undefined) {
    return { ...sending, ...socketMode({ call: client(appToken, apiUrl), hook, log }) };
  }
  return { ...sending, start() {}, stop() {}, webhook: receiver({ secrets, path, maxBytes, hook }) };
}

function settle(options: SlackOptions) {
  checkOptionNames('slack()', options, NAMES);
  const { token, signingSecret, appToken, maxBytes = 1_000_000, apiUrl = 'https://slack.com/api/' } = options;
  checkToken('token', token, 'xapp-', 'the Bot User OAuth Token of your app, which begins with xoxb-');
  const secrets = Array.isArray(signingSecret) ? (signingSecret as string[]) : [signingSecret as string];
  if (appToken !== undefined) {
    checkToken('appToken', appToken, 'xoxb-', 'an App-Level Token with connections:write, which begins with xapp-');
    if (signingSecret !== undefined) {
      throw new ConfigError(
        'slack(): both appToken and signingSecret. Slack delivers by a socket or by HTTP: pass the one that your app uses.',
      );
    }
  } else if (secrets.length === 0 || secrets.some((each) => typeof each !== 'string' || each === '')) {
    throw new ConfigError(
      'slack(): no signingSecret. Pass the Signing Secret of your app (Basic Information at api.slack.com), or appToken for Socket Mode.',
    );
  }
  if (typeof maxBytes !== 'number' || !(maxBytes >= 0)) {
    throw new ConfigError('slack(): maxBytes is no number of bytes from 0 up.');
  }
  if (options.answer !== undefined && typeof options.answer !== 'function') {
    throw new ConfigError('slack(): answer is no function.');
  }
  if (!URL.canParse(apiUrl)) throw new ConfigError('slack(): apiUrl is no address. Leave it out for Slack itself.');
  const log = options.log ?? ((line: string) => console.warn(line));
  return { ...options, secrets, maxBytes, apiUrl: apiUrl.endsWith('/') ? apiUrl : `${apiUrl}/`, log };
}

/**
 * A token with a space or a line break would come back in the error of whoever writes the header. One that begins with `wrong` is
 * the app's other one.
 */
function checkToken(name: string, token: unknown, wrong: string, what: string): void {
  if (typeof token !== 'string' || !/^[\x21-\x7e]+$/.test(token)) {
    throw new ConfigError(`slack(): no ${name}, or one with spaces. Pass ${what}.`);
  }
  if (token.startsWith(wrong)) throw new ConfigError(`slack(): ${name} begins with ${wrong}. Pass ${what}.`);
}
