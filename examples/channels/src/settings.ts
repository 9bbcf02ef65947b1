import { type Provider, terminal } from '@botmesh/core';
import { slack } from '@botmesh/slack';
import { telegram } from '@botmesh/telegram';
import { whatsapp } from '@botmesh/whatsapp';

type Environment = Readonly<Record<string, string | undefined>>;

/** What the environment says besides the platform. */
export function settingsOf({ PORT = '8080', DRAIN_MS = '20000', REDIS_URL, DATABASE_URL }: Environment) {
  return { port: Number(PORT), drainMs: Number(DRAIN_MS), redisUrl: REDIS_URL, databaseUrl: DATABASE_URL };
}

/** The platform that CHANNEL names, with its secrets. The addresses are for fakes: leave them out for the real ones. */
export function channelOf(env: Environment): Provider {
  const { CHANNEL = 'terminal' } = env;
  switch (CHANNEL) {
    case 'terminal':
      return terminal();
    case 'telegram':
      return telegram({
        token: needed(env, 'TELEGRAM_TOKEN'),
        // Calls to the path, or polling.
        ...(env.TELEGRAM_SECRET ? { webhook: { secretToken: env.TELEGRAM_SECRET, path: '/telegram' } } : {}),
        ...(env.TELEGRAM_API_ROOT ? { apiRoot: env.TELEGRAM_API_ROOT } : {}),
      });
    case 'whatsapp':
      return whatsapp({
        token: needed(env, 'WHATSAPP_TOKEN'),
        appSecret: needed(env, 'WHATSAPP_APP_SECRET'),
        verifyToken: needed(env, 'WHATSAPP_VERIFY_TOKEN'),
        path: '/whatsapp',
        ...(env.WHATSAPP_API_URL ? { apiUrl: env.WHATSAPP_API_URL } : {}),
      });
    case 'slack':
      return slack({
        token: needed(env, 'SLACK_BOT_TOKEN'),
        path: '/slack',
        // A socket, or calls to the path.
        ...(env.SLACK_APP_TOKEN
          ? { appToken: env.SLACK_APP_TOKEN }
          : { signingSecret: needed(env, 'SLACK_SIGNING_SECRET') }),
        ...(env.SLACK_API_URL ? { apiUrl: env.SLACK_API_URL } : {}),
      });
    default:
      throw new Error('CHANNEL: expected terminal, telegram, whatsapp or slack.');
  }
}

function needed(env: Environment, name: string): string {
  const value = env[name];
  if (value) return value;
  throw new Error(`${name} is not set.`);
}
