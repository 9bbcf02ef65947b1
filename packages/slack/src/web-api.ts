import { DeliveryUnknownError, RateLimitedError } from '@botmesh/core/spi';
import { SlackError } from './errors.js';

const LONGEST_MS = 30_000;
const UNREACHABLE_PAUSE_MS = 2_000;
/** Where Slack limits and does not say for how long. */
const LIMITED_MS = 1_000;

/** Slack's own words for errors after which something may have been done. */
const UNSURE = ['fatal_error', 'internal_error'];

export type Answered = Readonly<Record<string, unknown>>;

export type Call = (method: string, args: object, signal: AbortSignal) => Promise<Answered>;

/**
 * Calls the Web API with one token. Names the method and Slack's word for what is wrong; never the token nor the arguments.
 *
 * @throws RateLimitedError, for the channel alone: Slack counts by channel
 * @throws SlackError when Slack refused it, or could not be reached
 * @throws DeliveryUnknownError when Slack did not answer
 */
export function client(token: string, apiUrl: string): Call {
  return async (method, args, signal) => {
    const headers = { 'content-type': 'application/json; charset=utf-8', authorization: `Bearer ${token}` };
    const until = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
    let response: Response;
    let found: Answered;
    try {
      response = await fetch(`${apiUrl}${method}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(args),
        signal: until,
      });
      // What stands before Slack may answer with a page.
      found = asFields(await response.text());
    } catch (cause) {
      if (isUnreached(cause)) {
        const retryAfterMs = UNREACHABLE_PAUSE_MS;
        throw new SlackError('unreachable', 'the Web API cannot be reached', { cause, retryAfterMs });
      }
      throw new DeliveryUnknownError(`slack: ${method} got no answer, and may have been done`, { cause });
    }
    if (found.ok === true) return found;
    const askedMs = Number(response.headers.get('retry-after') ?? Number.NaN) * 1000;
    if (response.status === 429) throw new RateLimitedError(askedMs >= 0 ? askedMs : LIMITED_MS, { scope: 'chat' });
    const error = typeof found.error === 'string' ? found.error : 'no error';
    if (response.status >= 500 || UNSURE.includes(error)) {
      throw new DeliveryUnknownError(`slack: ${method} answered ${response.status}, ${error}, and may have been done`);
    }
    throw new SlackError(error, `${method} answered ${response.status}, ${error}`);
  };
}

function asFields(body: string): Answered {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? (value as Answered) : {};
  } catch {
    return {};
  }
}

/** No connection was made, so that nothing was sent. */
function isUnreached(error: unknown): boolean {
  const cause = (error as { cause?: { code?: unknown } } | undefined)?.cause;
  return ['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'].includes(String(cause?.code));
}
