/** Nothing was heard in time. What was asked may still happen. */
export class TimedOut extends Error {
  override readonly name = 'TimedOut';
}

/** Rejects with {@link TimedOut} when `promise` has not settled after `limitMs`; a later rejection of it is no news. */
export function within<T>(limitMs: number, what: string, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new TimedOut(`${what}: no answer within ${Math.round(limitMs)} ms`));
    // After a blocked event loop the timer is due before the answer that lies in the socket has been read: read it first.
    const timer = setTimeout(() => setImmediate(giveUp), limitMs);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
