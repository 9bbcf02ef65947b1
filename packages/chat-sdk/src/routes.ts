/** A webhook request as a route gets it: read to its end, and not yet believed. */
export interface Arrived {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
}

/** Where a request belongs. */
export interface Place {
  /** What must be serial: the conversation's name on its platform. */
  readonly chat: string;
  /** The platform's name for what it sends, the same in every redelivery. Without it, a redelivery is taken in again. */
  readonly id?: string | undefined;
  /** What it is. `album` is handled together with the albums' parts that come right after it. */
  readonly kind?: string | undefined;
  /** What an operator should know, told once. */
  readonly warning?: string | undefined;
}

/**
 * How the requests of one adapter of the SDK are told apart before the SDK sees them. Write one for an adapter that has
 * none here.
 */
export interface WebhookRoute {
  /**
   * Says where a request belongs. A Response is answered as it is, and nothing is taken in: refuse by it what is not from
   * the platform. `at-once`: the SDK answers itself, now, with nothing taken in; for what a platform asks and waits for.
   */
  read(arrived: Arrived): Place | Response | 'at-once';
  /** Headers that prove to the adapter, in the turn and maybe minutes later, what `read` has checked. They are not stored. */
  headers?(body: string): Record<string, string>;
  /** Whether a key of the state is a mark of the adapter's own for what it has seen. The SDK's own are known. */
  isMark?(key: string): boolean;
}
