import { CoordinationUnavailableError, type Coordinator, type StateStore } from '@botmesh/core/spi';
import { Account, type AccountSetup } from './Account.js';
import { pause } from './pause.js';
import { Roster } from './Roster.js';
import { isToGive, isToTake } from './share.js';

/** So many looks an account is left to those who have fewer, before it is taken all the same. */
const PATIENT_LOOKS = 2;
const MOVE = 'baileys:move';

export interface AccountsSetup extends Omit<AccountSetup, 'account'> {
  readonly accounts: readonly string[];
  readonly balanceMs: number;
  /** Resolves when nothing that runs needs the account's connection any more. */
  drained(account: string): Promise<void>;
}

/** The accounts that this replica has: as many as the others, give or take one. */
export class Accounts {
  readonly #setup: AccountsSetup;
  readonly #coordinator: Coordinator;
  readonly #roster: Roster;
  readonly #held = new Map<string, Account>();
  readonly #patience = new Map<string, number>();
  /** Logged out: not tried again by this process. */
  readonly #gone = new Set<string>();
  readonly #stopping = new AbortController();
  #running: Promise<void> | undefined;

  constructor(setup: AccountsSetup & { readonly coordinator: Coordinator; readonly store: StateStore }) {
    this.#setup = setup;
    this.#coordinator = setup.coordinator;
    this.#roster = new Roster(setup.coordinator, setup.store);
  }

  start(): void {
    this.#running ??= this.#run();
  }

  get(account: string): Account | undefined {
    return this.#held.get(account);
  }

  /** Whether this process has given it up for good. */
  isGone(account: string): boolean {
    return this.#gone.has(account);
  }

  get names(): readonly string[] {
    return [...this.#held.keys()];
  }

  /** Takes none any more; what it has goes on. */
  async halt(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  /** Closes all connections, each before its leadership is let go. */
  async stop(): Promise<void> {
    await this.halt();
    await Promise.all([...this.#held.values()].map((account) => account.letGo()));
    await this.#roster.leave().catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#look();
      } catch (error) {
        // While the backend is away nothing can be shared out; what is held ends by itself.
        if (!(error instanceof CoordinationUnavailableError)) this.#setup.tell({ kind: 'failed', account: '', error });
      }
      // Not all at the same moment.
      await pause(this.#setup.balanceMs * (0.75 + Math.random() / 2), signal);
    }
  }

  async #look(): Promise<void> {
    const others = await this.#roster.tell(this.#held.size);
    const free = this.#setup.accounts.filter((name) => !this.#held.has(name) && !this.#gone.has(name));
    for (const name of free) {
      const waited = this.#patience.get(name) ?? 0;
      if (!isToTake(this.#held.size, others) && waited < PATIENT_LOOKS) this.#patience.set(name, waited + 1);
      else await this.#take(name);
      if (this.#stopping.signal.aborted) return;
    }
    if (isToGive(this.#held.size, others)) await this.#give();
  }

  async #take(name: string): Promise<void> {
    const lead = await this.#coordinator.tryLead(`baileys:${name}`);
    this.#patience.delete(name);
    if (lead === null) return;
    if (this.#stopping.signal.aborted) return lead.resign();
    const account = new Account({ ...this.#setup, account: name }, lead);
    this.#held.set(name, account);
    void account.ended.then((how) => {
      this.#held.delete(name);
      if (how === 'logged out') this.#gone.add(name);
    });
  }

  /** One at a time in the whole mesh: the next when this one is connected elsewhere, or nobody took it. */
  async #give(): Promise<void> {
    const move = await this.#coordinator.tryLead(MOVE);
    if (move === null) return;
    try {
      const [name = ''] = this.#held.keys();
      const account = this.#held.get(name);
      if (account === undefined) return;
      await this.#setup.drained(name);
      // For those who have fewer.
      this.#patience.set(name, -PATIENT_LOOKS);
      await account.letGo();
      this.#setup.tell({ kind: 'moved', account: name });
      await pause(this.#setup.balanceMs, this.#stopping.signal);
    } finally {
      await move.resign();
    }
  }
}
