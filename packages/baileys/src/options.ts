import { ConfigError, checkOptionNames, type Mailroom, type StateStore } from '@botmesh/core/spi';
import type { AuthState } from './auth-state.js';
import type { WaMessage, WaSocket } from './socket.js';

/** What became of accounts and messages. */
export type BaileysEvent =
  | { readonly kind: 'connected' | 'disconnected'; readonly account: string }
  /** Scan it with the phone to link the account. */
  | { readonly kind: 'qr'; readonly account: string; readonly qr: string }
  /** Something outside of the mesh is connected with the account's credentials: this replica leads, and waits. */
  | { readonly kind: 'replaced'; readonly account: string; readonly retryInMs: number }
  /** The phone has unlinked the account, or WhatsApp has closed it: this replica does not try it any more. */
  | { readonly kind: 'loggedOut'; readonly account: string; readonly code: number }
  /** Given up so that another replica, with fewer accounts, takes it. */
  | { readonly kind: 'moved'; readonly account: string }
  /** A message that cannot be taken in: it names no chat. */
  | { readonly kind: 'ignored'; readonly account: string; readonly why: string }
  | { readonly kind: 'failed'; readonly account: string; readonly error: unknown };

export interface ConnectOptions {
  /** Makes a socket: `({ auth }) => makeWASocket({ auth })`. It is closed by its `end`. */
  connect: (given: { account: string; auth: AuthState; signal: AbortSignal }) => WaSocket | Promise<WaSocket>;
  /** Baileys' `initAuthCreds`. */
  initAuthCreds: () => unknown;
  /** See `useBotmeshAuthState`. */
  revive?: (type: string, value: unknown) => unknown;
}

/** What a handler gets beside the message. */
export interface WaContext {
  readonly account: string;
  /** The chat: its `remoteJid`. */
  readonly chat: string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Aborts when the chat or the account is not surely held any more. */
  readonly signal: AbortSignal;
  /** The account's socket, as `connect` made it. What you send by it is not checked: use `send`. */
  readonly socket: WaSocket;
  /** Throws LeaseLostError unless both the chat and the account are surely held. */
  assertHeld(): void;
  /** Sends to the chat by `sendMessage`. Rejects with LeaseLostError, and sends nothing, once either is lost. */
  // biome-ignore lint/suspicious/noExplicitAny: contents and options are between you and Baileys
  send(content: any, options?: any): Promise<unknown>;
}

export interface BaileysOptions extends ConnectOptions {
  /** How this replica agrees with the others, and where messages wait. */
  coordinator: Mailroom;
  /** Where credentials, keys and who has what is kept: shared by all replicas, and kept for ever. */
  store: StateStore;
  /** All accounts, by names of your own. The same in every replica. */
  accounts: readonly string[];
  /** Handles a message, one of a chat at a time. One that throws is tried again in its place, `maxAttempts` times. */
  onMessage: (message: WaMessage, context: WaContext) => unknown;
  onEvent?: (event: BaileysEvent) => void;
  /** Whether to handle what was sent from the account itself, too. Default false. */
  fromMe?: boolean;
  /** How often accounts are shared out anew, in milliseconds. Default 2,000. */
  balanceMs?: number;
  /** The first pause after a connection was closed; doubled each time, up to `longestDelayMs`. Default 1,000; 60,000. */
  firstDelayMs?: number;
  longestDelayMs?: number;
  /** How long to hold a chat after its handler threw; doubled each time, at most 10 s. Default 100. */
  retryDelayMs?: number;
  /** Where what operators should know is told. Default `console.warn`. */
  log?: (line: string) => void;
}

const NAMES: { [Name in keyof Required<BaileysOptions>]: true } = {
  coordinator: true,
  store: true,
  accounts: true,
  connect: true,
  initAuthCreds: true,
  revive: true,
  onMessage: true,
  onEvent: true,
  fromMe: true,
  balanceMs: true,
  firstDelayMs: true,
  longestDelayMs: true,
  retryDelayMs: true,
  log: true,
};

const MAILROOM = ['accept', 'onAdopted', 'passWaiting', 'acquireTurn', 'tryLead', 'start', 'stop'] as const;

/** @throws ConfigError naming the option, what was found and what is expected */
export function checkOptions(options: BaileysOptions): void {
  checkOptionNames('baileys()', options, NAMES);
  const { coordinator, store, accounts } = options;
  const missing = MAILROOM.find((name) => typeof coordinator?.[name] !== 'function');
  if (missing !== undefined) {
    throw new ConfigError(
      `baileys(): coordinator is ${typeof coordinator}, without ${missing}(). Pass { coordinator }, such as RedisCoordinator of @botmesh/redis.`,
    );
  }
  if (typeof store?.load !== 'function' || typeof store.save !== 'function') {
    throw new ConfigError('baileys(): no store. Pass { store }, such as RedisStateStore of @botmesh/redis.');
  }
  const names: readonly unknown[] = Array.isArray(accounts) ? accounts : [];
  if (names.length === 0 || names.some((name) => typeof name !== 'string' || name === '' || name.includes(':'))) {
    throw new ConfigError("baileys(): accounts: expected names, without ':'. Pass { accounts: ['main'] }.");
  }
  if (new Set(names).size < names.length) throw new ConfigError('baileys(): accounts: one is named twice.');
  for (const name of ['connect', 'initAuthCreds', 'onMessage'] as const) {
    if (typeof options[name] === 'function') continue;
    throw new ConfigError(`baileys(): ${name} is ${typeof options[name]}. Pass a function.`);
  }
  const { balanceMs = 1, firstDelayMs = 1, longestDelayMs = 1, retryDelayMs = 1 } = options;
  for (const [name, value] of Object.entries({ balanceMs, firstDelayMs, longestDelayMs, retryDelayMs })) {
    if (typeof value === 'number' && value > 0 && value < 2 ** 31) continue;
    throw new ConfigError(`baileys(): ${name} is ${typeof value}. Give a number of milliseconds above 0.`);
  }
}
