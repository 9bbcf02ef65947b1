import type { Reply } from '../providers/provider.js';

/**
 * What is known of a reply.
 *
 * - `sent`: the platform has it
 * - `failed`: the platform does not have it
 * - `unknown`: it was on its way when its replica ended, or the provider threw what says neither
 */
export type SendState = 'sent' | 'failed' | 'unknown';

/** The n-th reply of a run, as it is kept. The hash tells another reply in its place from the same. */
export type SendRecord = readonly [state: SendState, hash: number];

/** What a run sent, kept with the chat's state for the next attempt. */
export interface Sends {
  /** The message that had the turn. */
  readonly of: number;
  /** Those handled together with it. */
  readonly also?: readonly number[];
  readonly log: readonly SendRecord[];
}

/** What to do about a reply whose sending an earlier attempt began and did not see the end of. */
export type UnknownSends = 'resend' | 'drop';

/**
 * What becomes of the n-th reply of a run, given what is on record of the n-th of an earlier one: `send` it, `resend` it
 * although the platform may have it, `skip` it as sent, `drop` it though the platform may not have it, or send it as one
 * that is `other` than before.
 */
export type SendPlan = 'send' | 'resend' | 'skip' | 'drop' | 'other';

export function planSend(before: SendRecord | undefined, hash: number, unknown: UnknownSends): SendPlan {
  if (before === undefined) return 'send';
  const [state, former] = before;
  if (hash === 0 || hash !== former) return 'other';
  if (state === 'sent') return 'skip';
  if (state === 'failed') return 'send';
  return unknown === 'drop' ? 'drop' : 'resend';
}

/** FNV-1a over the reply's JSON. Pinned: it is stored. 0, which equals nothing, for what has none. */
export function hashOf(reply: Reply): number {
  let json: string;
  try {
    json = JSON.stringify(reply);
  } catch {
    return 0;
  }
  let value = 0x811c9dc5;
  for (let at = 0; at < json.length; at += 1) value = Math.imul(value ^ json.charCodeAt(at), 0x01000193);
  return value >>> 0 || 1;
}
