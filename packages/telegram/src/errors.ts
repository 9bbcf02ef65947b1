import { DeliveryError } from '@botmesh/core/spi';

/**
 * Why something was not sent.
 *
 * - `blocked`: the person blocked the bot, or it was removed from the chat or has no right to write there
 * - `not-found`: there is no such chat, message, file or topic
 * - `invalid`: Telegram does not take it so, or it was refused before it was sent
 * - `too-big`: the file
 * - `token`: the token is wrong or was revoked
 * - `unreachable`: no connection was made; it is tried again
 * - `other`: see `status` and the message
 */
export type Reason = 'blocked' | 'not-found' | 'invalid' | 'too-big' | 'token' | 'unreachable' | 'other';

/** Telegram surely does not have it. The message has Telegram's reason, without what it quotes, and never the token. */
export class TelegramError extends DeliveryError {
  readonly reason: Reason;
  /** The Bot API's `error_code`. Undefined where it was not asked. */
  readonly status: number | undefined;

  constructor(
    reason: Reason,
    message: string,
    options: ErrorOptions & { status?: number; retryAfterMs?: number } = {},
  ) {
    super(`telegram: ${message}`, options);
    this.reason = reason;
    this.status = options.status;
  }
}

export function reasonOf(status: number, description: string): Reason {
  if (status === 401 || status === 404) return 'token';
  if (status === 403) return 'blocked';
  if (status === 413 || /too big|too large/i.test(description)) return 'too-big';
  if (/not found|wrong (remote )?file id|wrong file_id/i.test(description)) return 'not-found';
  if (/not enough rights|have no rights|was kicked|not a member/i.test(description)) return 'blocked';
  return status === 400 ? 'invalid' : 'other';
}
