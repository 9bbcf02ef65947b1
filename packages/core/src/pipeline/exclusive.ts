import type { Coordinator, Leadership } from '../coordination/types.js';
import { LeaseLostError, LifecycleError } from '../errors.js';
import type { Intake, Provider } from '../providers/provider.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

export interface ExclusiveSetup {
  readonly coordinator: Coordinator;
  readonly provider: Provider;
  readonly intake: Intake;
  readonly clock: Clock;
  /** Aborts when nothing is to be taken in any more. */
  readonly stopping: AbortSignal;
  /** Resolves when no turn needs the connection any more. Asked only after `stopping`. */
  drained(): Promise<void>;
  /** Hears of what the provider threw. Must not throw. */
  failed(error: unknown): void;
  /** Whether this replica has the connection. */
  changed(isConnected: boolean): void;
}

/**
 * Runs a provider that may have only one connection: it connects while this replica leads, and the connection is closed
 * before leadership goes. Resolves after `stopping`, when leadership is let go. Never rejects.
 */
export async function runExclusive(setup: ExclusiveSetup): Promise<void> {
  const { coordinator, provider, clock, stopping } = setup;
  let delayMs = FIRST_DELAY_MS;
  while (!stopping.aborted) {
    try {
      const leadership = await coordinator.lead(`provider:${provider.name}`, { signal: stopping });
      const startedMs = clock.monotonicMs();
      try {
        await serve(setup, leadership);
      } finally {
        await leadership.resign();
      }
      if (clock.monotonicMs() - startedMs > LONGEST_DELAY_MS) delayMs = FIRST_DELAY_MS;
    } catch (error) {
      if (stopping.aborted) return;
      setup.failed(error);
      if (error instanceof LifecycleError || isReplaced(error)) return;
      await pause(clock, delayMs, stopping);
      delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS);
    }
  }
}

async function serve(setup: ExclusiveSetup, leadership: Leadership): Promise<void> {
  const { provider, stopping } = setup;
  const intake: Intake = (message) => {
    try {
      leadership.assertHeld();
    } catch (error) {
      return Promise.reject(error as Error);
    }
    return setup.intake(message);
  };
  const over = anyAborts(leadership.signal, stopping);
  const starting = (async () => provider.start(intake, leadership))();
  try {
    // One that takes long to connect may not outlast the leadership: the next leader connects then.
    await Promise.race([starting, over]);
    if (leadership.signal.aborted || stopping.aborted) closeLater(provider, starting);
    else setup.changed(true);
    await over;
  } finally {
    setup.changed(false);
    await provider.stop();
    // A lost leadership is not waited for: the next leader may already be connecting.
    if (stopping.aborted && !leadership.signal.aborted)
      await Promise.race([setup.drained(), anyAborts(leadership.signal)]);
    await provider.close?.();
  }
}

/** It was told to stop while it connected: it is told again when it has. */
function closeLater(provider: Provider, starting: Promise<void>): void {
  const close = async (): Promise<void> => {
    await provider.stop();
    await provider.close?.();
  };
  starting.then(close).catch(() => {});
}

function isReplaced(error: unknown): boolean {
  return error instanceof LeaseLostError && error.reason === 'replaced';
}

function anyAborts(...signals: AbortSignal[]): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of signals) {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    }
  });
}
