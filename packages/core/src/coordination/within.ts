import type { Clock } from '../time/clock.js';

/** Nothing was heard in time. Whatever else is known of a failure tells more. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer';

  constructor() {
    super('The backend did not answer.');
  }
}

/** What the call gives, or an error when it fails or takes too long. Never rejects. */
export function answerWithin<T>(clock: Clock, limitMs: number, call: () => Promise<T>): Promise<T | Error> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(limitMs, () => resolve(new NoAnswer()));
    const end = (value: T | Error): void => {
      clock.clearTimer(timer);
      resolve(value);
    };
    call().then(end, (error: unknown) => end(asError(error)));
  });
}

export function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
