import type { Clock, Timer } from '../time/clock.js';

export interface Limit {
  readonly clock: Clock;
  readonly limitMs: number;
  /** For the error: who did not answer. */
  readonly who: string;
  /** Ends what runs before its time, by its own signal. */
  readonly signal?: AbortSignal;
}

/**
 * What `act` gives. After `limitMs` its signal aborts and the answer is an error, also when it does not look at the signal.
 * Of a connection that has silently broken, many clients never hear.
 */
export async function inTime<T>(limit: Limit, act: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { clock, limitMs, who, signal } = limit;
  const cut = new AbortController();
  const end = (): void => cut.abort(signal?.reason);
  if (signal?.aborted) end();
  signal?.addEventListener('abort', end);
  let timer: Timer | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = clock.setTimer(limitMs, () => {
      const reason = new Error(`${who}: no answer within ${limitMs} ms`);
      // First the answer: what the signal makes of it says less.
      reject(reason);
      cut.abort(reason);
    });
  });
  try {
    return await Promise.race([act(cut.signal), late]);
  } finally {
    if (timer !== undefined) clock.clearTimer(timer);
    signal?.removeEventListener('abort', end);
  }
}
