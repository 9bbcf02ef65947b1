import {
  type AdoptedMessage,
  CoordinationUnavailableError,
  LeaseLostError,
  LifecycleError,
  type Mailroom,
  type MailTurn,
  type Ticket,
} from '@botmesh/core/spi';
import type { Account } from './Account.js';
import { decode, encode } from './encode.js';
import type { BaileysOptions, WaContext } from './options.js';
import { pause } from './pause.js';
import type { Upsert, WaMessage } from './socket.js';

/** How long a message is held that came to a replica without its account, before another one gets it. */
const PASS_MS = 100;
/** The same where the account is logged out, so that maybe nobody has it. */
const GONE_PASS_MS = 5_000;
const RETRY_TAKING_MS = 500;
const LONGEST_RETRY_MS = 10_000;

interface Stored {
  readonly account: string;
  readonly message: unknown;
}

export interface LineSetup extends Pick<BaileysOptions, 'onMessage' | 'coordinator'> {
  readonly fromMe: boolean;
  readonly retryDelayMs: number;
  readonly accountOf: (name: string) => Account | undefined;
  readonly isGone: (name: string) => boolean;
  tell: NonNullable<BaileysOptions['onEvent']>;
}

/** The way of messages: taken in, then handled in the turns of their chats, where their account is. */
export class Line {
  readonly #setup: LineSetup;
  readonly #mail: Mailroom;
  readonly #stopping = new AbortController();
  readonly #hurry = new AbortController();
  readonly #running = new Map<Promise<void>, string>();
  /** The last that is being taken in, for each account: a chat's messages are taken in in order, also across outages. */
  readonly #taking = new Map<string, Promise<void>>();
  #endAdopting: (() => void) | undefined;

  constructor(setup: LineSetup) {
    this.#setup = setup;
    this.#mail = setup.coordinator;
  }

  /** Before the coordinator is started: only replicas that listen are given messages of others. */
  start(): void {
    this.#endAdopting = this.#mail.onAdopted((message) => this.#begin(message));
  }

  /** Takes in what an account's socket told of. */
  upsert(account: string, { messages }: Upsert): void {
    for (const message of messages ?? []) {
      if (message?.key?.fromMe && !this.#setup.fromMe) continue;
      const before = this.#taking.get(account) ?? Promise.resolve();
      this.#taking.set(
        account,
        before.then(() => this.#take(account, message)),
      );
    }
  }

  /** Resolves when no handler of the account runs, or `drainMs` are over. */
  async drained(account?: string, drainMs = 10_000): Promise<void> {
    const running = [...this.#running].filter(([, name]) => account === undefined || name === account);
    await Promise.race([Promise.all(running.map(([run]) => run)), pause(drainMs, this.#hurry.signal)]);
  }

  /** Begins nothing any more; passes on what waits. Resolves when what runs has ended, or `drainMs` are over. */
  async stop(drainMs: number): Promise<void> {
    this.#endAdopting?.();
    this.#stopping.abort(new LifecycleError('stopped', 'The bot is stopping.'));
    this.#mail.passWaiting();
    await this.drained(undefined, drainMs);
    this.#hurry.abort();
  }

  /** What was told of is taken in by now. */
  async taken(): Promise<void> {
    await Promise.all(this.#taking.values());
  }

  /** Baileys has confirmed it, or will do so by itself: it is tried until it is taken in. Never rejects. */
  async #take(account: string, message: WaMessage): Promise<void> {
    const { remoteJid, id } = message?.key ?? {};
    const { tell } = this.#setup;
    if (typeof remoteJid !== 'string' || remoteJid === '') {
      return tell({ kind: 'ignored', account, why: 'a message without key.remoteJid: it is of no chat' });
    }
    const named = typeof id === 'string' && id !== '' ? { id: `${id}${message.key?.fromMe ? ' fromMe' : ''}` } : {};
    try {
      const stored: Stored = { account, message: encode(message, 'message') };
      const body = JSON.stringify(stored);
      const ticket = await this.#accept(keyOf(account, remoteJid), { ...named, body });
      if (ticket !== null) this.#begin({ ticket, body, attempt: 1 });
    } catch (error) {
      tell({ kind: 'failed', account, error });
    }
  }

  async #accept(key: string, message: { id?: string; body: string }): Promise<Ticket | null> {
    for (;;) {
      try {
        return await this.#mail.accept(key, message);
      } catch (error) {
        const isPassing = error instanceof CoordinationUnavailableError || error instanceof LeaseLostError;
        // Not given up with the leadership: the next leader is not told what was confirmed here.
        if (!isPassing || this.#hurry.signal.aborted) throw error;
        await pause(RETRY_TAKING_MS, this.#hurry.signal);
      }
    }
  }

  #begin(message: Pick<AdoptedMessage, 'ticket' | 'body' | 'attempt'>): void {
    // It is the mesh's: another one gets it when this coordinator stops.
    if (this.#stopping.signal.aborted) return;
    const account = accountIn(message.body);
    const run = this.#handle(message, account).catch((error: unknown) =>
      this.#setup.tell({ kind: 'failed', account, error }),
    );
    this.#running.set(run, account);
    void run.finally(() => this.#running.delete(run));
  }

  async #handle({ ticket, body, attempt }: Pick<AdoptedMessage, 'ticket' | 'body' | 'attempt'>, name: string) {
    let turn: MailTurn;
    try {
      turn = await this.#mail.acquireTurn(ticket);
    } catch (error) {
      // It is another replica's by now, or will be.
      if (error instanceof LeaseLostError || error instanceof LifecycleError) return;
      throw error;
    }
    const over = AbortSignal.any([turn.signal, this.#hurry.signal]);
    const account = this.#setup.accountOf(name);
    const socket = await account?.open(AbortSignal.any([over, this.#stopping.signal]));
    if (account === undefined || socket === undefined) {
      const passMs = this.#setup.isGone(name) ? GONE_PASS_MS : PASS_MS;
      if (account === undefined) await pause(passMs, AbortSignal.any([over, this.#stopping.signal]));
      await turn.release({ pass: true });
      return;
    }
    try {
      const { message } = JSON.parse(body) as Stored;
      await this.#setup.onMessage(decode(message) as WaMessage, contextOf(turn, { account, socket, attempt }));
      await turn.release();
    } catch (error) {
      await this.#failed(turn, account, attempt, error);
    }
  }

  async #failed(turn: MailTurn, account: Account, attempt: number, error: unknown): Promise<void> {
    const { tell, retryDelayMs } = this.#setup;
    // The account went elsewhere meanwhile, which is no fault of the message's.
    const isMoved = account.lead.signal.aborted || error instanceof LeaseLostError;
    if (!isMoved) tell({ kind: 'failed', account: account.name, error });
    if (isMoved) return turn.release({ pass: true });
    await pause(Math.min(retryDelayMs * 2 ** (attempt - 1), LONGEST_RETRY_MS), turn.signal);
    await turn.release({ retry: true, error: error instanceof Error ? error.message : String(error) });
  }
}

const keyOf = (account: string, chat: string): string => `baileys:${account}:${chat}`;

function accountIn(body: string): string {
  return (JSON.parse(body) as Stored).account;
}

interface Given {
  readonly account: Account;
  readonly socket: NonNullable<Account['socket']>;
  readonly attempt: number;
}

function contextOf(turn: MailTurn, { account, socket, attempt }: Given): WaContext {
  const chat = turn.key.slice(keyOf(account.name, '').length);
  const assertHeld = (): void => {
    turn.assertHeld();
    account.lead.assertHeld();
  };
  return {
    account: account.name,
    chat,
    attempt,
    socket,
    signal: AbortSignal.any([turn.signal, account.lead.signal]),
    assertHeld,
    // Async, so that it rejects and never throws.
    async send(content, options) {
      assertHeld();
      const open = account.socket;
      if (open === undefined) throw new LeaseLostError('stopped', 'the connection of the account was closed');
      return await open.sendMessage(chat, content, options);
    },
  };
}
