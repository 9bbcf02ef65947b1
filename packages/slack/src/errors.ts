import { DeliveryError } from '@botmesh/core/spi';

/** Slack surely did not do it. The message has Slack's word for why, and never a token or a text. */
export class SlackError extends DeliveryError {
  /**
   * Slack's own word: `channel_not_found`, `not_in_channel`, `token_revoked`, `msg_too_long`. `unreachable` where no connection
   * was made, which is tried again, and `no error` where Slack gave none.
   */
  readonly reason: string;

  constructor(reason: string, message: string, options?: ErrorOptions & { retryAfterMs?: number }) {
    super(`slack: ${message}`, options);
    this.reason = reason;
  }
}

/** What no call with this token will change. */
const TOKEN = [
  'invalid_auth',
  'not_authed',
  'token_revoked',
  'token_expired',
  'account_inactive',
  'not_allowed_token_type',
];

/** Whether Slack takes the token no more: it was revoked or replaced, or the app is uninstalled. */
export function isTokenRefused(error: unknown): boolean {
  return error instanceof SlackError && TOKEN.includes(error.reason);
}
