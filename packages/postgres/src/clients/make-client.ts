import { randomUUID } from 'node:crypto';
import { ConfigError } from '@botmesh/core/spi';
import { check } from '../check.js';
import { checkSchema } from '../schema.js';
import { Calls } from './Calls.js';
import { DatabaseError, type PostgresClient, type WakeUp } from './client.js';
import { unavailable } from './failures.js';
import { Listening } from './Listening.js';
import type { Library } from './libraries.js';
import { findLibrary, preparesByName, recognise } from './libraries.js';
import type { Dialer, DialSettings, Link } from './link.js';
import { checkPlace, dialerFor, type Place } from './place.js';
import { explain, ServerUnfitError } from './unfit.js';
import { checkUrl } from './url.js';
import { within } from './within.js';

/** What every part of this package that connects takes of its options. */
export interface ClientOptions extends Place, DialSettings {
  /** Where the one connection goes that listens. Default: where all others go. */
  readonly listenUrl?: string | undefined;
  /** Default `listen`. */
  readonly wakeUp?: WakeUp | undefined;
  readonly schema?: string | undefined;
  /** Whether `open` sets the schema up where that is allowed. Default true. */
  readonly migrate?: boolean | undefined;
}

/**
 * A client that connects when it is opened. For tests, `library` says which one a URL is for.
 *
 * @throws ConfigError naming the option that cannot work
 */
export function makeClient(options: ClientOptions, library?: Library): PostgresClient {
  checkPlace(options);
  const { listenUrl, migrate: migrates = true, wakeUp = 'listen' } = options;
  const schema = checkSchema(options.schema);
  if (wakeUp !== 'listen' && wakeUp !== 'poll') {
    const given: unknown = wakeUp;
    const shown = typeof given === 'string' ? `'${given}'` : typeof given;
    throw new ConfigError(`wakeUp is ${shown}. Expected 'listen' or 'poll'.`);
  }
  if (typeof migrates !== 'boolean') throw new ConfigError(`migrate is ${typeof migrates}. Expected true or false.`);
  if (listenUrl !== undefined) {
    checkUrl('listenUrl', listenUrl);
    if (wakeUp === 'poll')
      throw new ConfigError("listenUrl is given, and wakeUp is 'poll', which listens nowhere. Leave one out.");
  }
  return new OwnConnections({ ...options, schema, migrate: migrates, wakeUp }, library);
}

interface Settled extends ClientOptions {
  readonly schema: string;
  readonly migrate: boolean;
  readonly wakeUp: WakeUp;
}

interface Opened {
  readonly dialer: Dialer;
  readonly calls: Calls;
  readonly listening: Listening;
  /** Whether each statement has to be begun as READ COMMITTED. */
  isStrict: boolean;
  /** Whether it is known that what listens hears. */
  isProven: boolean;
}

/** With which a step refuses to run in a transaction that is stricter than READ COMMITTED. */
const INVALID_TRANSACTION_STATE = '25000';

/** All connections are its own, also where a client was passed in: what its user does with that one is in nobody's way. */
class OwnConnections implements PostgresClient {
  readonly wakeUp: WakeUp;
  readonly #options: Settled;
  readonly #library: Library | undefined;
  #opening: Promise<Opened> | undefined;
  #opened: Opened | undefined;
  #where: string | undefined;

  constructor(options: Settled, library: Library | undefined) {
    this.wakeUp = options.wakeUp;
    this.#options = options;
    this.#library = library;
  }

  get where(): string {
    return this.#where ?? 'PostgreSQL';
  }

  async open(): Promise<void> {
    const opening = this.#opening ?? this.#open();
    this.#opening = opening;
    try {
      const opened = await opening;
      // Closed meanwhile.
      if (this.#opening === opening) this.#opened = opened;
      else end(opened);
    } catch (error) {
      if (this.#opening === opening) this.#opening = undefined;
      throw error;
    }
  }

  async call(text: string, values: readonly (string | null)[]): Promise<string | null> {
    const opened = this.#current();
    const { calls, isStrict } = opened;
    try {
      return await calls.run((link) => (isStrict ? asReadCommitted(link, text, values) : link.query(text, values)));
    } catch (error) {
      // Somebody has made the role stricter since the start.
      if (error instanceof DatabaseError && error.code === INVALID_TRANSACTION_STATE) opened.isStrict = true;
      throw error;
    }
  }

  async listen(channel: string, onPayload: (payload: string) => void, onGap: () => void): Promise<() => Promise<void>> {
    const opened = this.#current();
    const { isProven, listening } = opened;
    try {
      const off = await listening.listen(channel, onPayload, onGap);
      if (isProven) return off;
      try {
        await this.#prove(opened);
      } catch (error) {
        await off();
        throw error;
      }
      opened.isProven = true;
      return off;
    } catch (error) {
      throw explain(this.where, error);
    }
  }

  async close(): Promise<void> {
    const opening = this.#opening;
    this.#opening = undefined;
    this.#opened = undefined;
    const opened = await opening?.catch(() => undefined);
    if (opened !== undefined) end(opened);
  }

  #current(): Opened {
    if (this.#opened !== undefined) return this.#opened;
    throw unavailable(`The connection to ${this.where} is not open.`);
  }

  async #open(): Promise<Opened> {
    const { client, listenUrl, schema, migrate: migrates } = this.#options;
    const dialer = await dialerFor(this.#options, this.#options, this.#library);
    const { where } = dialer;
    this.#where = where;
    const calls = new Calls(dialer, this.#options);
    try {
      await calls.open();
      let isStrict = false;
      await calls.run(async (link) => {
        const checked = await check(link, { where, schema, migrates, prepares: preparesByName(client) });
        isStrict = checked.isStrict;
        for (const { code, message } of checked.findings) {
          process.emitWarning(message, { type: 'BotmeshWarning', code: `postgres-${code}` });
        }
        return null;
      }, this.#options.connectTimeoutMs);
      const ears = listenUrl === undefined ? dialer : await this.#earsOf(listenUrl);
      return { calls, dialer, isStrict, listening: new Listening(ears, this.#options), isProven: false };
    } catch (cause) {
      calls.close();
      throw explain(where, cause);
    }
  }

  /** By the library that all others go by, and with the same TLS. */
  async #earsOf(listenUrl: string): Promise<Dialer> {
    const { client, connectTimeoutMs, timeoutMs } = this.#options;
    const settings = { connectTimeoutMs, timeoutMs };
    if (client === undefined) return (this.#library ?? (await findLibrary())).dialer(listenUrl, settings);
    const { library, ssl } = recognise(client);
    return (await findLibrary(library)).dialer(listenUrl, settings, ssl);
  }

  /** Sends a notification by another connection. A pooler of transactions gives it to nobody, or to somebody else. */
  async #prove({ calls, listening }: Opened): Promise<void> {
    const channel = `botmesh_${randomUUID()}`;
    let heard = (): void => {};
    const hears = new Promise<void>((resolve) => {
      heard = resolve;
    });
    const off = await listening.listen(
      channel,
      () => heard(),
      () => {},
    );
    const { connectTimeoutMs } = this.#options;
    try {
      const limitMs = connectTimeoutMs / 4;
      await calls.run((link) => link.query('select pg_catalog.pg_notify($1, $2)', [channel, '']));
      await within(limitMs, 'a notification', hears);
    } catch (cause) {
      if (!(cause instanceof Error) || cause.name !== 'TimedOut') throw cause;
      if (this.#options.listenUrl !== undefined) {
        throw new ServerUnfitError(
          'pooler',
          `What listens by listenUrl hears nothing that is sent by ${this.where}. It has to lead to the same database, with no pooler of transactions between.`,
        );
      }
      throw new ServerUnfitError(
        'pooler',
        `What listens by ${this.where} hears nothing: a pooler of transactions, such as PgBouncer, stands between. Pass listenUrl, an address without it, or wakeUp: 'poll'.`,
      );
    } finally {
      await off();
    }
  }
}

function end({ calls, listening }: Opened): void {
  listening.close();
  calls.close();
}

/** For a role whose transactions begin stricter: the steps read again after they waited for a lock. */
async function asReadCommitted(link: Link, text: string, values: readonly (string | null)[]): Promise<string | null> {
  await link.query('begin isolation level read committed');
  try {
    const answer = await link.query(text, values);
    await link.query('commit');
    return answer;
  } catch (error) {
    await link.query('rollback').catch(() => link.destroy());
    throw error;
  }
}
