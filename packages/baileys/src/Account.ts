import {
  type Coordinator,
  type Leadership,
  LeaseLostError,
  type Served,
  StaleFenceError,
  type StateStore,
} from '@botmesh/core/spi';
import { type AuthState, useBotmeshAuthState } from './auth-state.js';
import type { BaileysEvent, ConnectOptions } from './options.js';
import { pause } from './pause.js';
import { type ConnectionUpdate, REASONS, reasonOf, type Upsert, type WaSocket } from './socket.js';

/** How long a socket that was told to close may take, before its leadership is let go all the same. */
const CLOSING_MS = 2_000;
/** A connection that lasted so long was a good one: the next pause is the first again. */
const GOOD_MS = 30_000;
/** So often in a row a restart is made at once. */
const QUICK_RESTARTS = 3;

export interface AccountSetup extends ConnectOptions {
  readonly account: string;
  readonly coordinator: Coordinator;
  readonly store: StateStore;
  readonly firstDelayMs: number;
  readonly longestDelayMs: number;
  /** Takes in what came. Called in the order of arrival. */
  readonly upsert: (account: string, upsert: Upsert) => void;
  readonly tell: (event: BaileysEvent) => void;
}

/**
 * One account while this replica leads it: one connection after the other, never two, and none once the leadership is not
 * surely held. Made anew for each leadership, which it does not let go of itself.
 */
export class Account {
  readonly name: string;
  readonly lead: Leadership;
  /** Resolves when its connection is closed, with `gone` where the account is logged out. Never rejects. */
  readonly ended: Promise<Served>;
  readonly #setup: AccountSetup;
  readonly #letGo = new AbortController();
  readonly #over: AbortSignal;
  #socket: WaSocket | undefined;
  #isOpen = false;
  /** Those who wait for it to open. */
  #waiting: (() => void)[] = [];

  constructor(setup: AccountSetup, lead: Leadership) {
    this.#setup = setup;
    this.name = setup.account;
    this.lead = lead;
    this.#over = AbortSignal.any([lead.signal, this.#letGo.signal]);
    this.ended = this.#run();
  }

  /** The socket, if it is open. */
  get socket(): WaSocket | undefined {
    return this.#isOpen ? this.#socket : undefined;
  }

  /** Resolves with the socket when it is open, or undefined when that will not be so any more under this leadership. */
  async open(signal: AbortSignal): Promise<WaSocket | undefined> {
    const over = AbortSignal.any([this.#over, signal]);
    while (!over.aborted && this.socket === undefined) {
      await Promise.race([new Promise<void>((resolve) => this.#waiting.push(resolve)), aborted(over)]);
    }
    return over.aborted ? undefined : this.socket;
  }

  /** Closes the connection. */
  close(): Promise<Served> {
    this.#letGo.abort();
    return this.ended;
  }

  async #run(): Promise<Served> {
    const { firstDelayMs, longestDelayMs, tell } = this.#setup;
    let delayMs = firstDelayMs;
    let quick = 0;
    while (!this.#over.aborted) {
      const startedMs = performance.now();
      const reason = await this.#connectOnce();
      if (performance.now() - startedMs > GOOD_MS) [delayMs, quick] = [firstDelayMs, 0];
      if (this.#over.aborted) break;
      if (reason === REASONS.loggedOut || reason === REASONS.forbidden) {
        tell({ kind: 'loggedOut', account: this.name, code: reason });
        return 'gone';
      }
      if (reason !== REASONS.restartRequired || ++quick > QUICK_RESTARTS) {
        if (reason === REASONS.connectionReplaced) tell({ kind: 'replaced', account: this.name, retryInMs: delayMs });
        await pause(delayMs, this.#over);
        delayMs = Math.min(2 * delayMs, longestDelayMs);
      }
    }
    return undefined;
  }

  /** Resolves when the connection is closed, with the code that says why, if one does. Never rejects. */
  async #connectOnce(): Promise<number | undefined> {
    const { account, store, coordinator, initAuthCreds, revive, tell } = this.#setup;
    let socket: WaSocket | undefined;
    try {
      this.lead.assertHeld();
      const auth = await useBotmeshAuthState(store, account, {
        lead: this.lead,
        initAuthCreds,
        ...(revive === undefined ? {} : { revive }),
      });
      // Another may lead by now: it was a while.
      this.lead.assertHeld();
      if (this.#over.aborted) return undefined;
      socket = await this.#connect(auth.state);
      if (socket === undefined) return undefined;
      const closed = this.#hear(socket, auth.saveCreds);
      if (this.#over.aborted) return undefined;
      const reason = await Promise.race([closed, aborted(this.#over)]);
      // A socket that is closed from this side says so too; whoever took it over may be connecting already.
      if (reason === REASONS.connectionReplaced) await checkLead(coordinator, this.lead);
      return reason;
    } catch (error) {
      if (!(error instanceof LeaseLostError)) tell({ kind: 'failed', account, error });
      return undefined;
    } finally {
      await this.#close(socket);
    }
  }

  /** Undefined when the account is to be let go before there is a socket: one that comes after all is closed. */
  async #connect(auth: AuthState): Promise<WaSocket | undefined> {
    const connecting = Promise.resolve(this.#setup.connect({ account: this.name, auth, signal: this.#over }));
    const socket = await Promise.race([connecting, aborted(this.#over)]);
    if (socket === undefined) connecting.then((late) => late.end(undefined)).catch(() => {});
    else this.#socket = socket;
    return socket;
  }

  /** Resolves when the socket has closed. */
  #hear(socket: WaSocket, saveCreds: () => Promise<void>): Promise<number | undefined> {
    const { account, tell, upsert } = this.#setup;
    return new Promise((resolve) => {
      socket.ev.on('connection.update', (update: ConnectionUpdate) => {
        if (this.#socket !== socket) return;
        if (update.qr !== undefined) tell({ kind: 'qr', account, qr: update.qr });
        if (update.connection === 'open') this.#nowOpen();
        if (update.connection === 'close') resolve(reasonOf(update));
      });
      socket.ev.on('creds.update', () => {
        saveCreds().catch((error: unknown) => {
          tell({ kind: 'failed', account, error });
          // Somebody leads who came later: its keys are the ones that count.
          if (error instanceof StaleFenceError || error instanceof LeaseLostError) this.#letGo.abort();
        });
      });
      socket.ev.on('messages.upsert', (messages: Upsert) => upsert(account, messages));
    });
  }

  #nowOpen(): void {
    this.#isOpen = true;
    for (const resolve of this.#waiting.splice(0)) resolve();
    this.#setup.tell({ kind: 'connected', account: this.name });
  }

  async #close(socket: WaSocket | undefined): Promise<void> {
    if (socket === undefined) return;
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    this.#socket = undefined;
    try {
      await Promise.race([socket.end(undefined), pause(CLOSING_MS)]);
    } catch (error) {
      this.#setup.tell({ kind: 'failed', account: this.name, error });
    }
    for (const event of ['connection.update', 'creds.update', 'messages.upsert']) socket.ev.removeAllListeners?.(event);
    if (wasOpen) this.#setup.tell({ kind: 'disconnected', account: this.name });
  }
}

/** Asks the backend, and not only the clocks: resolves when it has confirmed the leadership, or the lease has settled it. */
async function checkLead(coordinator: Coordinator, lead: Leadership): Promise<void> {
  lead.assertHeld();
  // An answered call of the same replica: had its epoch been given up, it would be told so now.
  await coordinator.tryLead(`${lead.name}:check`).then((check) => check?.resign());
  lead.assertHeld();
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener('abort', () => resolve(undefined), { once: true });
  });
}
