import { DeliveryError } from '@botmesh/core/spi';

/**
 * Why the Cloud API refused a message, for a program to decide by.
 *
 * - `window-closed`: the other end has not written for 24 hours; only a template reaches it
 * - `rate-limited`, `pair-rate-limited`: too many messages, of the number or to this person
 * - `restricted`: Meta limits the number or the account, for spam, for its policies, for a payment that is due
 * - `unreachable`: the other end cannot get it: no WhatsApp, too old a version, terms not accepted, not on the test list
 * - `declined`: the other end, or Meta for them, wants no such message
 * - `template`, `media`, `invalid`: what was sent cannot be sent so
 * - `token`: the token is wrong, expired, or may not do that
 * - `number`: the sending number is not registered, not verified, or gone
 * - `temporary`: a fault at Meta
 * - `other`: a code that is not listed
 */
export type Reason =
  | 'window-closed'
  | 'rate-limited'
  | 'pair-rate-limited'
  | 'restricted'
  | 'unreachable'
  | 'declined'
  | 'template'
  | 'media'
  | 'invalid'
  | 'token'
  | 'number'
  | 'temporary'
  | 'other';

export interface Explained {
  /** The Cloud API's. */
  readonly code: number;
  readonly reason: Reason;
  /** Whether the same message may get through later, unchanged. */
  readonly isPassing: boolean;
}

const CODES: Readonly<Record<Exclude<Reason, 'other'>, readonly number[]>> = {
  'window-closed': [131047, 470],
  'rate-limited': [4, 17, 613, 80007, 80008, 130429],
  'pair-rate-limited': [131056],
  restricted: [368, 130497, 131031, 131042, 131048, 131064],
  unreachable: [131021, 131026, 131030, 131043, 1013],
  declined: [130472, 131049, 131050],
  template: [132000, 132001, 132005, 132007, 132008, 132012, 132015, 132016, 132018, 132068, 132069, 135000],
  media: [131052, 131053],
  invalid: [33, 100, 131008, 131009, 131051],
  token: [0, 3, 10, 190, 131005],
  number: [131037, 131045, 133000, 133005, 133006, 133008, 133009, 133010, 133015, 2388103],
  temporary: [1, 2, 131000, 131016, 131057, 133004],
};

const REASONS = new Map<number, Reason>(
  Object.entries(CODES).flatMap(([reason, codes]) => codes.map((code): [number, Reason] => [code, reason as Reason])),
);

const PASSING: ReadonlySet<Reason> = new Set<Reason>(['rate-limited', 'pair-rate-limited', 'temporary']);

/** What a code of the Cloud API means, whether an answer or a status brought it. */
export function explain(code: number): Explained {
  const reason = REASONS.get(code) ?? (code >= 200 && code <= 299 ? 'token' : 'other');
  return { code, reason, isPassing: PASSING.has(reason) };
}

/** What to do about it, in the words of an error. */
const ADVICE: Readonly<Record<Reason, string>> = {
  'window-closed': 'the 24-hour window is closed: send a template, or wait until they write',
  'rate-limited': 'too many messages of this number; sent again after a pause',
  'pair-rate-limited': 'too many messages to one person; sent again after a pause',
  restricted: 'Meta restricts the number or the account: look into the WhatsApp Manager',
  unreachable: 'the other end cannot receive it',
  declined: 'the other end, or Meta for them, wants no such message',
  template: 'the template does not exist, is paused, or has other parameters',
  media: 'the media could not be fetched, or is not of its type',
  invalid: 'a field is missing, wrong or too long',
  token: 'the token is wrong or expired, or lacks a permission',
  number: 'the sending number is not registered, not verified, or gone',
  temporary: 'a fault at Meta',
  other: 'see the error codes of the Cloud API',
};

/**
 * The Cloud API does not have the message: it refused it, or it was never sent. Branch on `reason`. Says no token, number
 * or text.
 */
export class WhatsAppError extends DeliveryError {
  readonly reason: Reason;
  /** The Cloud API's code. Undefined where it was not asked. */
  readonly cloudCode: number | undefined;

  constructor(
    reason: Reason,
    message: string,
    options: ErrorOptions & { cloudCode?: number; retryAfterMs?: number } = {},
  ) {
    super(`whatsapp: ${message}`, options);
    this.reason = reason;
    this.cloudCode = options.cloudCode;
  }
}

/** `trace` is Meta's name for the call, for its support. */
export function refused(
  { code, reason }: Explained,
  status: number,
  { retryAfterMs, trace }: { retryAfterMs?: number | undefined; trace?: string | undefined } = {},
): WhatsAppError {
  const traced = trace === undefined ? '' : `, fbtrace_id ${trace}`;
  const message = `refused by the Cloud API: ${ADVICE[reason]} (code ${code}, HTTP ${status}${traced}).`;
  return new WhatsAppError(reason, message, {
    cloudCode: code,
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  });
}
