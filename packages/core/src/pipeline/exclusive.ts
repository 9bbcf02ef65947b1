import type { Coordinator, Leadership } from '../coordination/types.js';
import { BadInputError, LeaseLostError, LifecycleError } from '../errors.js';
import type { Intake, Lead, Provider } from '../providers/provider.js';
import type { Clock } from '../time/clock.js';
import { pause } from './pause.js';

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;

/** What the connections of a provider have in common. */
export interface ConnectionSetup {
  readonly provider: Provider;
  readonly intake: Intake;
  /** Aborts when nothing is to be taken in any more. */
  readonly stopping: AbortSignal;
  /** Resolves when no turn needs the connection any more. Asked only after `stopping`, or when the account is to move. */
  drained(account?: string): Promise<void>;
  /** Whether this replica has the connection, and under which leadership. */
  changed(isConnected: boolean, lead: Lead, account?: string): void;
}

export interface ExclusiveSetup extends ConnectionSetup {
  readonly coordinator: Coordinator;
  readonly clock: Clock;
  /** Hears of what the provider threw. Must not throw. */
  failed(error: unknown): void;
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
        await serveConnection(setup, leadership);
      } finally {
        await leadership.resign();
        if (clock.monotonicMs() - startedMs > LONGEST_DELAY_MS) delayMs = FIRST_DELAY_MS;
      }
    } catch (error) {
      if (stopping.aborted) return;
      setup.failed(error);
      if (error instanceof LifecycleError || isReplaced(error)) return;
      await pause(clock, delayMs, stopping);
      delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS);
    }
  }
}

/** One of several accounts, which may be asked to go elsewhere. */
export interface OfAccount {
  readonly account: string;
  readonly letGo: AbortSignal;
}

/**
 * Connects, and resolves when the connection is closed, because the leadership is lost or this is not to go on.
 *
 * @throws what the provider threw, or gave up with
 */
export async function serveConnection(
  setup: ConnectionSetup,
  leadership: Leadership,
  { account, letGo }: Partial<OfAccount> = {},
): Promise<void> {
  const { provider, stopping } = setup;
  const ended = new GivenUp();
  const lead: Lead = {
    signal: leadership.signal,
    assertHeld: () => leadership.assertHeld(),
    giveUp: (error) => ended.with(error),
  };
  const intake: Intake = (message) => {
    try {
      leadership.assertHeld();
      if (account !== undefined) checkAccount(provider, message.chat, account);
    } catch (error) {
      return Promise.reject(error as Error);
    }
    return setup.intake(message);
  };
  const asked = letGo === undefined ? [stopping] : [stopping, letGo];
  const over = anyAborts(leadership.signal, ended.signal, ...asked);
  const starting = (async () => provider.start(intake, lead, account))();
  const isAsked = (): boolean => asked.some((signal) => signal.aborted);
  try {
    // One that takes long to connect may not outlast the leadership: the next leader connects then.
    await Promise.race([starting, over]);
    if (leadership.signal.aborted || isAsked() || ended.signal.aborted) closeLater(provider, starting, account);
    else setup.changed(true, lead, account);
    await over;
  } finally {
    setup.changed(false, lead, account);
    await provider.stop(account);
    // A lost leadership is not waited for: the next leader may already be connecting.
    if (isAsked() && !leadership.signal.aborted && !ended.signal.aborted)
      await Promise.race([setup.drained(account), anyAborts(leadership.signal)]);
    await provider.close?.(account);
  }
  if (ended.signal.aborted) throw ended.error;
}

/** What a provider gave its connection up with. */
class GivenUp {
  readonly #controller = new AbortController();
  error: unknown;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  with(error: unknown): void {
    if (!this.signal.aborted) this.error = error;
    this.#controller.abort();
  }
}

/** Handled where its account is not, its replies could not leave. */
function checkAccount(provider: Provider, chat: string, account: string): void {
  const found = provider.accountOf?.(chat);
  if (found === account) return;
  throw new BadInputError(
    `provider ${provider.name}: a message that came to account '${account}' is of a chat of account '${found}'. accountOf() must name the account that the chat came to.`,
  );
}

/** It was told to stop while it connected: it is told again when it has. */
function closeLater(provider: Provider, starting: Promise<void>, account: string | undefined): void {
  const close = async (): Promise<void> => {
    await provider.stop(account);
    await provider.close?.(account);
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
