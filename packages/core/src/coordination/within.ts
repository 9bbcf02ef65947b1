import type { Clock } from '../time/clock.js';

/** What the call gives, or an error when it fails or takes too long. Never rejects. */
export function answerWithin<T>(clock: Clock, limitMs: number, call: () => Promise<T>): Promise<T | Error> {
  return new Promise((resolve) => {
    const timer = clock.setTimer(limitMs, () => resolve(new Error('The backend did not answer.')));
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
