import type { Coordinator } from '../coordination/types.js';
import type { Clock } from '../time/clock.js';
import type { Health, Waits } from './health.js';

/** Estimates of one quarantine, by several shards or heartbeats, differ by less. */
const SAME_MS = 2_000;

/** Tells operators what befalls the coordinator, and lets the Bot's health follow: `change` is made from one of `from`. */
export function announce(
  coordinator: Coordinator,
  log: (line: string) => void,
  change: (from: readonly Health[], to: Health) => void,
  clock: Clock,
): { readonly waits: Waits | undefined } {
  let quarantinedUntilMs = 0;
  coordinator.on('quarantine', ({ untilMs, cause }) => {
    const isTold = untilMs - quarantinedUntilMs < SAME_MS;
    quarantinedUntilMs = Math.max(untilMs, quarantinedUntilMs);
    if (isTold) return;
    const seconds = ((untilMs - clock.wallMs()) / 1000).toFixed(1);
    log(
      `botmesh: no turn is granted for about ${seconds} s, until ${new Date(untilMs).toISOString()}, since ${cause}: a replica that nobody knows of any more may hold one for as long. What comes is taken in, and handled then.`,
    );
  });
  coordinator.on('unavailable', ({ error }) => {
    change(['starting', 'ready'], 'unavailable');
    log(`botmesh: the coordination backend does not answer: ${error.message}`);
  });
  coordinator.on('available', ({ downMs }) => {
    change(['unavailable'], 'ready');
    log(`botmesh: the coordination backend answers again, after ${Math.round(downMs)} ms.`);
  });
  coordinator.on('replaced', () => {
    change(['starting', 'ready', 'unavailable'], 'replaced');
    log(`botmesh: a newer start took the replicaId ${coordinator.replicaId}. This replica is out.`);
  });
  const led = new Map<string, number>();
  coordinator.on('elected', ({ name, term }) => void led.set(name, term));
  coordinator.on('held', ({ key, fence, heldMs }) => {
    // A leadership is held for as long as it may be.
    if (led.get(key) === fence) return;
    log(`botmesh: chat ${key} is held for ${Math.round(heldMs / 1000)} s. Its handler may hang: see maxTurnMs.`);
  });
  coordinator.on('parked', ({ key, attempts }) => {
    log(`botmesh: a message of chat ${key} failed ${attempts} times and is parked.`);
  });

  return {
    get waits(): Waits | undefined {
      const leftMs = Math.round(quarantinedUntilMs - clock.wallMs());
      if (leftMs <= 0) return undefined;
      return { for: 'quarantine', until: new Date(quarantinedUntilMs).toISOString(), leftMs };
    },
  };
}
