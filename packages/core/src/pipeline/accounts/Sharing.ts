import type { Coordinator } from '../../coordination/types.js';
import type { Intake, Provider } from '../../providers/provider.js';
import type { StateStore } from '../../state/state-store.js';
import type { Clock } from '../../time/clock.js';
import { serveConnection } from '../exclusive.js';
import { AccountGate } from './AccountGate.js';
import { Accounts, type Place } from './Accounts.js';

export interface SharingSetup {
  readonly provider: Provider;
  readonly accounts: readonly string[];
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly clock: Clock;
  readonly balanceMs: number;
  readonly intake: Intake;
  readonly stopping: AbortSignal;
  /** Whether messages can be passed on to the replica that has their account. */
  readonly canPass: boolean;
  /** Whether messages are handled anywhere. */
  readonly handlesAlways: boolean;
  /** Resolves when no turn needs a connection any more. Asked only after `stopping`. */
  drained(): Promise<void>;
  /** How many are connected. */
  changed(count: number): void;
  failed(error: unknown, what: string): void;
  tell(line: string): void;
}

/** Runs a provider with several accounts: those that are this replica's share. */
export class Sharing {
  /** Undefined where messages may be handled anywhere. */
  readonly gate: AccountGate | undefined;
  readonly #setup: SharingSetup;
  readonly #accounts: Accounts;
  readonly #connected: AccountGate;

  constructor(setup: SharingSetup) {
    const { provider, accounts, coordinator, store, clock, balanceMs, canPass, stopping } = setup;
    this.#setup = setup;
    this.#accounts = new Accounts({
      coordinator,
      store,
      clock,
      name: `provider:${provider.name}`,
      accounts,
      balanceMs,
      serve: async (account, lead, letGo) => {
        const { intake } = setup;
        const connection = {
          provider,
          intake,
          stopping,
          drained: () => this.#drained(account),
          changed: (isConnected: boolean) => this.#changed(account, isConnected ? lead : undefined),
        };
        await serveConnection(connection, lead, { account, letGo }).finally(() => this.#connected.closed(account));
        return undefined;
      },
      failed: (error, account) => setup.failed(error, whatOf(provider, account)),
      moved: (account) => setup.tell(`account ${account} of ${provider.name} was let go for a replica with fewer.`),
    });
    this.#connected = new AccountGate({
      clock,
      names: accounts,
      accounts: this.#accounts,
      accountOf: (chat) => this.#accountOf(chat),
      canPass,
      stopping,
    });
    this.gate = setup.handlesAlways ? undefined : this.#connected;
  }

  /** Resolves after `stopping`, when all accounts are let go. Never rejects. */
  async run(): Promise<void> {
    const { stopping } = this.#setup;
    this.#accounts.start();
    if (!stopping.aborted) {
      await new Promise<void>((resolve) => stopping.addEventListener('abort', () => resolve(), { once: true }));
    }
    await this.#accounts.stop();
  }

  /** How each account is on this replica, for `/readyz`. */
  get details(): { accounts: Record<string, Place | 'connecting'> } {
    const placeOf = (account: string): Place | 'connecting' => {
      const place = this.#accounts.placeOf(account);
      return place === 'held' && !this.#connected.isConnected(account) ? 'connecting' : place;
    };
    return { accounts: Object.fromEntries(this.#setup.accounts.map((account) => [account, placeOf(account)])) };
  }

  /** A message is not lost by an error in there: it waits where its account is not known. */
  #accountOf(chat: string): string {
    const { provider, failed } = this.#setup;
    try {
      return provider.accountOf?.(chat) ?? '';
    } catch (error) {
      failed(error, `accountOf() of provider ${provider.name}`);
      return '';
    }
  }

  #changed(account: string, lead: Parameters<AccountGate['opened']>[1] | undefined): void {
    if (lead === undefined) this.#connected.ending(account);
    else this.#connected.opened(account, lead);
    this.#setup.changed(this.#connected.count);
  }

  /** What runs goes on sending for a while. Where anybody may send, nobody is waited for. */
  async #drained(account: string): Promise<void> {
    const { stopping, handlesAlways, canPass, drained } = this.#setup;
    if (handlesAlways) return;
    // What cannot be passed on is handled here, also while this replica stops.
    if (stopping.aborted && !canPass) return drained();
    const stopped = new Promise<void>((resolve) => {
      if (stopping.aborted) resolve();
      else stopping.addEventListener('abort', () => resolve(), { once: true });
    });
    await Promise.race([this.#connected.drained(account), stopped.then(drained)]);
  }
}

function whatOf({ name }: Provider, account: string | undefined): string {
  return account === undefined ? `sharing the accounts of provider ${name}` : `account ${account} of provider ${name}`;
}
