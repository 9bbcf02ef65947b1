import { Accounts, ConfigError, type Coordinator, LifecycleError, systemClock } from '@botmesh/core/spi';
import { Account } from './Account.js';
import { Line } from './Line.js';
import { type BaileysEvent, type BaileysOptions, checkOptions } from './options.js';
import type { Upsert } from './socket.js';

const DRAIN_MS = 10_000;
const BALANCE_MS = 2_000;

/** A bot of WhatsApp accounts on the mesh. */
export interface BaileysBot {
  /** The accounts that are connected, or about to be, from this replica. */
  readonly accounts: readonly string[];
  /**
   * Joins the mesh and takes its share of the accounts. Idempotent.
   *
   * @throws ConfigError when another bot runs on the coordinator, LifecycleError after `stop()`
   */
  start(): Promise<void>;
  /**
   * Takes no message more, lets running handlers end for `drainMs` (10,000), closes each connection and then lets its account
   * go. What waits is another replica's. Idempotent.
   */
  stop(options?: { drainMs?: number }): Promise<void>;
}

/** Which bot runs on a coordinator. */
const users = new WeakMap<Coordinator, object>();

/**
 * Runs WhatsApp accounts by Baileys on many replicas. Each account is connected from one replica at a time, and as many
 * from each replica as from any other, give or take one. Its messages are taken in before they are handled, one of a chat at
 * a time and in order, at least once, on the replica that has the account's connection.
 *
 * Baileys confirms messages to WhatsApp by itself. What it has confirmed in the moment before its process is killed, and
 * this has not yet taken in, is lost.
 *
 * @throws ConfigError naming the option that cannot work
 */
export function baileys(options: BaileysOptions): BaileysBot {
  checkOptions(options);
  const { coordinator, store, fromMe = false, retryDelayMs = 100, balanceMs = BALANCE_MS } = options;
  const { firstDelayMs = 1_000, longestDelayMs = 60_000, log = (line: string) => console.warn(line) } = options;
  const tell = (event: BaileysEvent): void => {
    const line = lineOf(event);
    if (line !== undefined) log(line);
    tellListener(options.onEvent, event, log);
  };
  const held = new Map<string, Account>();
  const accountOf = (name: string) => held.get(name);
  const isGone = (name: string) => accounts.isGone(name);
  const line = new Line({ coordinator, onMessage: options.onMessage, fromMe, retryDelayMs, accountOf, isGone, tell });
  const connection = {
    coordinator,
    store,
    connect: options.connect,
    initAuthCreds: options.initAuthCreds,
    ...(options.revive === undefined ? {} : { revive: options.revive }),
    firstDelayMs,
    longestDelayMs,
    tell,
    upsert: (account: string, upsert: Upsert) => line.upsert(account, upsert),
  };
  const accounts = new Accounts({
    coordinator,
    store,
    clock: systemClock,
    name: 'baileys',
    accounts: options.accounts,
    balanceMs,
    async serve(name, lead, letGo) {
      const account = new Account({ ...connection, account: name }, lead);
      held.set(name, account);
      letGo.addEventListener('abort', () => void line.drained(name).then(() => account.close()), { once: true });
      return await account.ended.finally(() => held.delete(name));
    },
    failed: (error, account = '') => tell({ kind: 'failed', account, error }),
    moved: (account) => tell({ kind: 'moved', account }),
  });
  let started: Promise<void> | undefined;
  let stopped: Promise<void> | undefined;

  async function start(): Promise<void> {
    if (users.has(coordinator)) {
      throw new ConfigError('baileys(): another bot runs on this coordinator. Give each a coordinator of its own.');
    }
    users.set(coordinator, line);
    if (isInMemory(coordinator)) log(IN_MEMORY);
    line.start();
    await coordinator.start();
    accounts.start();
  }

  async function stop(drainMs: number): Promise<void> {
    await started?.catch(() => {});
    if (users.get(coordinator) !== line) return;
    await accounts.halt();
    await line.stop(drainMs);
    await accounts.stop();
    await line.taken();
    await coordinator.stop();
    users.delete(coordinator);
  }

  return {
    get accounts() {
      return accounts.held;
    },
    start: async () => {
      if (stopped !== undefined) throw new LifecycleError('stopped', 'The bot was stopped. Make a new one.');
      started ??= start();
      await started;
    },
    stop: ({ drainMs = DRAIN_MS } = {}) => (stopped ??= stop(drainMs)),
  };
}

/** Whatever a listener does, accounts and messages go on. */
function tellListener(listener: BaileysOptions['onEvent'], event: BaileysEvent, log: (line: string) => void): void {
  const failed = (error: unknown): void =>
    log(`botmesh: WhatsApp account '${event.account}': onEvent failed at '${event.kind}': ${shown(error)}`);
  try {
    const told: unknown = listener?.(event);
    if (told instanceof Promise) told.catch(failed);
  } catch (error) {
    failed(error);
  }
}

const IN_MEMORY =
  "botmesh: WARNING: the coordinator is in this process's memory. Several replicas then connect each account at the same " +
  'time and are thrown out with 440 in turn, and messages are lost with their process. Pass a shared coordinator before ' +
  'you run more than one, such as RedisCoordinator of @botmesh/redis.';

/** By what only that one can do: the class is not for bots to import. */
function isInMemory(coordinator: object): boolean {
  return 'crash' in coordinator && 'mesh' in coordinator;
}

/** What an operator should know. */
function lineOf(event: BaileysEvent): string | undefined {
  const account = `botmesh: WhatsApp account '${event.account}'`;
  if (event.kind === 'replaced') {
    return `${account} was thrown out (440) by a connection from outside of this mesh. It is tried again in ${event.retryInMs} ms.`;
  }
  if (event.kind === 'loggedOut')
    return `${account} is logged out (${event.code}). It is not tried again: link it anew.`;
  if (event.kind === 'ignored') return `${account}: ${event.why}. It is ignored.`;
  if (event.kind === 'failed') return `${account}: ${shown(event.error)}`;
  return undefined;
}

function shown(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
