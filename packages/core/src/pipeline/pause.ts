import type { Clock } from '../time/clock.js';

/** Resolves after `delayMs`, or as soon as one of the signals aborts. Never rejects: look at the signals. */
export function pause(clock: Clock, delayMs: number, ...signals: AbortSignal[]): Promise<void> {
  if (signals.some((signal) => signal.aborted)) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clock.clearTimer(timer);
      for (const signal of signals) leave(signal, end);
      resolve();
    };
    const timer = clock.setTimer(delayMs, end);
    for (const signal of signals) join(signal, end);
  });
}

interface Crowd {
  readonly ends: Set<() => void>;
  readonly ring: () => void;
}

/** All that wait for one signal have one listener: Node takes more than ten for a leak, and warns. */
const crowds = new WeakMap<AbortSignal, Crowd>();

function join(signal: AbortSignal, end: () => void): void {
  const crowd = crowds.get(signal);
  if (crowd !== undefined) {
    crowd.ends.add(end);
    return;
  }
  const ends = new Set([end]);
  const ring = (): void => {
    for (const each of [...ends]) each();
  };
  crowds.set(signal, { ends, ring });
  signal.addEventListener('abort', ring);
}

function leave(signal: AbortSignal, end: () => void): void {
  const crowd = crowds.get(signal);
  crowd?.ends.delete(end);
  if (crowd === undefined || crowd.ends.size > 0) return;
  signal.removeEventListener('abort', crowd.ring);
  crowds.delete(signal);
}
