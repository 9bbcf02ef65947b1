/**
 * How a message ended.
 *
 * - `handled`: its handlers ran to their end
 * - `merged`: handled together with the newer message `by`, whose run it was
 * - `cancelled`: ended without a result: a newer message (`by`) took its place, or somebody called `bot.cancel`
 * - `rejected`: its chat was busy, and its kind does not wait
 * - `parked`: tried too often, and kept aside
 * - `lost`: the store lost its data, and this message with it
 * - `dropped`: given up for good. Only without a coordinator that keeps messages
 */
export type How = 'handled' | 'merged' | 'cancelled' | 'rejected' | 'parked' | 'lost' | 'dropped';

/** A message by its place and by its platform's name for it. */
export interface Named {
  readonly seq: number;
  readonly id: string | undefined;
}

/** What is not told of every end. */
export interface EndDetail {
  /** The newer message that it was merged into, or that it made way for. */
  readonly by?: Named | undefined;
  /** What was said to `bot.cancel`, or why it was parked or dropped. */
  readonly reason?: string | undefined;
  /**
   * True when the backend's word did not come before this replica was counted as dead, or stopped: the message most likely
   * ended so, and else another replica tells how it ended. Not there where the end is sure.
   */
  readonly isUnsure?: boolean | undefined;
}

/** The end of one message. */
export interface Ended extends EndDetail {
  readonly chat: string;
  readonly id: string | undefined;
  /** Its place. Undefined for a parked one, which has none any more. */
  readonly seq: number | undefined;
  readonly how: How;
}
