/** Waits until `isTrue` answers true; rejects after `limitMs`, naming what was waited for and the last error. */
export async function until(what: string, isTrue: () => Promise<boolean> | boolean, limitMs = 15_000): Promise<void> {
  const end = performance.now() + limitMs;
  let last: unknown;
  for (let tries = 1; ; tries++) {
    try {
      if (await isTrue()) return;
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (performance.now() > end) throw new Error(`After ${limitMs} ms not so: ${what}`, { cause: last });
    // What takes long is not asked for all the time: it would take longer.
    await pause(tries < 10 ? 20 : 100);
  }
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}
