import { ConfigError, checkOptionNames, type Provider } from '@botmesh/core/spi';
import { receiver } from './receive.js';
import { sender } from './send.js';

export interface SlackOptions {
  /** The bot's token, `xoxb-…`. */
  token: string;
  /** Verifies what Slack posts. Several while it changes. */
  signingSecret: string | readonly string[];
  /** The only path that is answered. Default: every path. */
  path?: string;
  /** Longer bodies are refused with 413. Default 1,000,000. */
  maxBytes?: number;
  /** Where the Web API is. Default `https://slack.com/api/`. */
  apiUrl?: string;
}

const NAMES: { readonly [Name in keyof Required<SlackOptions>]: true } = {
  token: true,
  signingSecret: true,
  path: true,
  maxBytes: true,
  apiUrl: true,
};

/**
 * Slack by its Events API, for `bot.webhook`: events, commands and interactions. A thread of a channel is a chat, and so is what
 * stands outside of threads in direct messages. Slack is answered when a message is taken in, before it is handled. Does not
 * speak Socket Mode.
 *
 * @throws ConfigError for options that cannot work
 */
export function slack(options: SlackOptions): Provider {
  checkOptionNames('slack()', options, NAMES);
  const { token, signingSecret, path, maxBytes = 1_000_000, apiUrl = 'https://slack.com/api/' } = options;
  const secrets: readonly unknown[] = Array.isArray(signingSecret) ? signingSecret : [signingSecret];
  if (secrets.length === 0 || secrets.some((each) => typeof each !== 'string' || each === '')) {
    throw new ConfigError(
      'slack(): no signingSecret. Pass the Signing Secret of your app (Basic Information at api.slack.com).',
    );
  }
  if (typeof token !== 'string' || token === '') {
    throw new ConfigError('slack(): no token. Pass the Bot User OAuth Token of your app, which begins with xoxb-.');
  }
  if (typeof maxBytes !== 'number' || !(maxBytes >= 0)) {
    throw new ConfigError('slack(): maxBytes is no number of bytes from 0 up.');
  }
  if (!URL.canParse(apiUrl)) throw new ConfigError('slack(): apiUrl is no address. Leave it out for Slack itself.');
  return {
    name: 'slack',
    start() {},
    stop() {},
    webhook: receiver({ secrets: secrets as string[], path, maxBytes }),
    send: sender({ token, apiUrl: apiUrl.endsWith('/') ? apiUrl : `${apiUrl}/` }),
  };
}
