import { LeaseLostError } from '../../errors.js';
import type { Lead, Provider } from '../../providers/provider.js';
import type { Clock } from '../../time/clock.js';
import { pause } from '../pause.js';
import type { Accounts } from './Accounts.js';

/** How long a message is held whose account another replica has, before it is passed on. */
const PASS_MS = 50;
/** The same where this replica does not know the account. */
const UNKNOWN_MS = 1_000;
/** How soon it is looked again where its account is, while nobody has it. */
const LOOK_MS = 50;
/** So long turns that run keep their account from moving. */
const DRAIN_MS = 10_000;

export interface GateSetup {
  readonly clock: Clock;
  readonly names: readonly string[];
  readonly accounts: Pick<Accounts, 'placeOf' | 'isElsewhere'>;
  readonly accountOf: (chat: string) => string;
  /** Whether messages can be passed on. Otherwise they are handled here, wherever their account is. */
  readonly canPass: boolean;
  readonly stopping: AbortSignal;
}

/** What runs for an account. */
export interface Guest {
  /** Its account is not this replica's any more. */
  accountLost(error: Error): void;
}

/** Lets a message begin where its account is connected, and counts what runs. */
export class AccountGate {
  readonly #setup: GateSetup;
  /** The connections there are, those that are about to be closed included. */
  readonly #open = new Map<string, Lead>();
  readonly #beginning = new Set<string>();
  /** By account, what runs, as what ends it when the account is lost. */
  readonly #running = new Map<string, Set<Guest>>();
  #watchers: (() => void)[] = [];

  constructor(setup: GateSetup) {
    this.#setup = setup;
  }

  /** How many are connected. */
  get count(): number {
    return this.#beginning.size;
  }

  isConnected(account: string): boolean {
    return this.#beginning.has(account);
  }

  /** It is connected: messages begin. */
  opened(account: string, lead: Lead): void {
    this.#open.set(account, lead);
    this.#beginning.add(account);
    if (lead.signal.aborted) this.#lost(account, lead);
    else lead.signal.addEventListener('abort', () => this.#lost(account, lead), { once: true });
  }

  /** It is about to be closed: none begins any more, those that run may send. */
  ending(account: string): void {
    this.#beginning.delete(account);
  }

  closed(account: string): void {
    this.#beginning.delete(account);
    this.#open.delete(account);
    this.#end(account);
  }

  /** Another replica may have it: nothing that runs here may send to it any more. */
  #lost(account: string, lead: Lead): void {
    if (this.#open.get(account) !== lead) return;
    this.#beginning.delete(account);
    this.#end(account);
  }

  #end(account: string): void {
    const running = this.#running.get(account);
    if (running === undefined) return;
    for (const guest of [...running]) guest.accountLost(notHere());
  }

  /** Whether what runs may send to the chat. */
  isHere(chat: string): boolean {
    try {
      this.assertHere(chat);
      return true;
    } catch {
      return false;
    }
  }

  /** @throws LeaseLostError unless the account of the chat is connected from here, and surely held */
  assertHere(chat: string): void {
    const lead = this.#open.get(this.#setup.accountOf(chat));
    if (lead === undefined) {
      throw notHere();
    }
    lead.assertHeld();
  }

  /**
   * Resolves with true when the account of the chat is connected here: the message counts until `leave`, and `guest` hears
   * when the account is lost meanwhile. False: it is another replica's to begin, or `signal` aborts.
   */
  async enter(chat: string, signal: AbortSignal, guest: Guest): Promise<boolean> {
    const { clock, names, accounts, accountOf, canPass, stopping } = this.#setup;
    const account = accountOf(chat);
    // Thousands may wait: none of them listens to `stopping`.
    const wait = (ms: number): Promise<void> => pause(clock, ms, signal);
    while (!this.#beginning.has(account) && canPass) {
      if (signal.aborted || stopping.aborted) return false;
      const isKnown = names.includes(account);
      const isElsewhere = !isKnown || (accounts.placeOf(account) !== 'held' && accounts.isElsewhere(account));
      await wait(isElsewhere ? (isKnown ? PASS_MS : UNKNOWN_MS) : LOOK_MS);
      if (isElsewhere && !this.#beginning.has(account)) return false;
    }
    const running = this.#running.get(account);
    if (running === undefined) this.#running.set(account, new Set([guest]));
    else running.add(guest);
    return true;
  }

  leave(chat: string, guest: Guest): void {
    const account = this.#setup.accountOf(chat);
    const running = this.#running.get(account);
    if (running?.delete(guest) && running.size === 0) this.#running.delete(account);
    for (const tell of this.#watchers.splice(0)) tell();
  }

  /** Resolves when nothing of the account runs, or after ten seconds. */
  async drained(account: string): Promise<void> {
    const over = new AbortController();
    const limit = pause(this.#setup.clock, DRAIN_MS, over.signal);
    void limit.then(() => over.abort());
    while (!over.signal.aborted && this.#running.has(account)) {
      await Promise.race([limit, new Promise<void>((resolve) => this.#watchers.push(resolve))]);
    }
    over.abort();
  }

  /** The provider, whose `send` is refused once the account is not surely held. */
  guard(provider: Provider): Provider {
    const send: Provider['send'] = (chat, reply, context) => {
      this.assertHere(chat);
      return provider.send(chat, reply, context);
    };
    return Object.create(provider, { send: { value: send } }) as Provider;
  }
}

function notHere(): LeaseLostError {
  return new LeaseLostError('stopped', 'the account of this chat is not connected from this replica any more');
}
