import { timingSafeEqual } from 'node:crypto';
import { ConfigError, checkOptionNames } from '@botmesh/core/spi';
import type { Arrived, Place, WebhookRoute } from './routes.js';

const HEADER = 'x-telegram-bot-api-secret-token';

export interface TelegramRouteOptions {
  /** The same as the adapter's. Default: the environment's TELEGRAM_WEBHOOK_SECRET_TOKEN, as it is the adapter's. */
  secretToken?: string;
  /** Takes in what anybody sends, for an adapter that does so too. */
  allowUnverifiedWebhooks?: boolean;
}

/** What the Bot API knows, with what tells the chat of each: the chat it is in, or who sent it. */
const KINDS = new Set(
  (
    'message edited_message channel_post edited_channel_post business_connection business_message ' +
    'edited_business_message deleted_business_messages message_reaction message_reaction_count inline_query ' +
    'chosen_inline_result callback_query shipping_query pre_checkout_query purchased_paid_media poll poll_answer ' +
    'my_chat_member chat_member chat_join_request chat_boost removed_chat_boost'
  ).split(' '),
);

type Fields = Readonly<Record<string, unknown>>;

/**
 * Updates of Telegram: the chat is the chat's id, whatever its topics; what has no chat belongs to who sent it.
 *
 * @throws ConfigError without a secret token, unless unverified webhooks are allowed
 */
export function telegramRoute(options: TelegramRouteOptions = {}): WebhookRoute {
  checkOptionNames('telegramRoute()', options, { secretToken: true, allowUnverifiedWebhooks: true });
  const secretToken = options.secretToken ?? process.env.TELEGRAM_WEBHOOK_SECRET_TOKEN;
  const { allowUnverifiedWebhooks = process.env.TELEGRAM_ALLOW_UNVERIFIED_WEBHOOKS === 'true' } = options;
  if (!secretToken && !allowUnverifiedWebhooks) {
    throw new ConfigError(
      'telegramRoute(): no secretToken. Pass { secretToken }, the same as the adapter has, or set ' +
        'TELEGRAM_WEBHOOK_SECRET_TOKEN. To take in what anybody sends, pass { allowUnverifiedWebhooks: true }.',
    );
  }
  return {
    read({ headers, body }: Arrived): Place | Response {
      if (secretToken && !isSame(headers.get(HEADER), secretToken)) return answer(401, 'invalid secret token');
      const update = parse(body);
      return update === undefined ? answer(400, 'the body is no update of Telegram') : placeOf(update);
    },
    headers: () => (secretToken ? { [HEADER]: secretToken } : {}),
    isMark: (key) => key.includes(':webhook-update:'),
  };
}

function placeOf(update: Fields): Place {
  const id = Number.isSafeInteger(update.update_id) ? String(update.update_id) : undefined;
  const kind = Object.keys(update).find((name) => name !== 'update_id' && isFields(update[name]));
  const payload = kind === undefined ? {} : (update[kind] as Fields);
  const message = isFields(payload.message) ? payload.message : payload;
  const isAlbum = kind?.includes('edited') === false && payload.media_group_id !== undefined;
  const chat = idOf(message.chat) ?? idOf(payload.chat);
  const warning =
    kind === undefined || !KINDS.has(kind)
      ? `telegram: an update of a kind that is not known here, '${kind}'`
      : undefined;
  const named = { id, kind: isAlbum ? 'album' : (kind ?? 'unknown') };
  if (chat !== undefined) return { ...named, chat, warning };
  const user = idOf(payload.from) ?? idOf(payload.user) ?? idOf(payload.voter_chat);
  if (user !== undefined) return { ...named, chat: `user ${user}`, warning };
  return {
    ...named,
    chat: `all ${named.kind}`,
    warning: warning ?? `telegram: updates of kind '${named.kind}' have neither chat nor sender: they share one line`,
  };
}

function parse(body: string): Fields | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return isFields(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function idOf(value: unknown): string | undefined {
  const id = isFields(value) ? value.id : undefined;
  return typeof id === 'number' || typeof id === 'string' ? String(id) : undefined;
}

function isSame(found: string | null, wanted: string): boolean {
  const [a, b] = [Buffer.from(found ?? ''), Buffer.from(wanted)];
  return a.length === b.length && timingSafeEqual(a, b);
}

function answer(status: number, error: string): Response {
  return Response.json({ error }, { status });
}
