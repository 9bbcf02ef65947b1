import type { Clock } from '../time/clock.js';

/** Resolves after `delayMs`, or as soon as one of the signals aborts. Never rejects: look at the signals. */
export function pause(clock: Clock, delayMs: number, ...signals: AbortSignal[]): Promise<void> {
  if (signals.some((signal) => signal.aborted)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clock.clearTimer(timer);
      for (const signal of signals) signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = clock.setTimer(delayMs, end);
    for (const signal of signals) signal.addEventListener('abort', end);
  });
}
