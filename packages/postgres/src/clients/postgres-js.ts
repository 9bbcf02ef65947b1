import { connect, type Socket } from 'node:net';
import { closeSoon, type Dialer, type DialSettings, type Link, type LinkEvents, shownPlace } from './link.js';
import { once } from './pg.js';
import { within } from './within.js';

/** What is used of an instance of postgres 3. */
export interface PostgresSql {
  readonly options: PostgresOptions;
  unsafe(text: string, values?: readonly (string | null)[], options?: object): PostgresQuery;
  end(options?: { timeout?: number }): Promise<void>;
}

interface PostgresQuery {
  raw(): Promise<
    readonly (readonly (Uint8Array | null)[])[] & { readonly statement?: unknown; readonly state?: { pid?: number } }
  >;
}

export type Postgres = (options: object) => PostgresSql;

/** As the library has read them: several hosts, each with its port. */
export interface PostgresOptions {
  readonly [name: string]: unknown;
  readonly host: readonly string[];
  readonly port: readonly number[];
  readonly path?: string | false;
  readonly database: string;
  readonly socket?: unknown;
}

/** Taken over from the user's instance. All else is ours: how long, how many, and how values are read. */
const TAKEN_OVER = ['database', 'user', 'pass', 'ssl', 'sslnegotiation', 'target_session_attrs', 'connection'] as const;

const PROBE = 'botmesh';

/** Links of postgres 3. */
export class PostgresJsDialer implements Dialer {
  readonly where: string;
  readonly #postgres: Postgres;
  readonly #options: PostgresOptions;
  readonly #settings: DialSettings;

  constructor(postgres: Postgres, options: PostgresOptions, settings: DialSettings) {
    this.#postgres = postgres;
    this.#options = options;
    this.#settings = settings;
    const { database, host, path, port } = options;
    const places = path ? [path] : host.map((name, at) => `${name}:${port[at] ?? port[0]}`);
    this.where = path
      ? `${path} ${database}`
      : shownPlace(places.join(',').replace(/:\d+$/, ''), port.at(-1)!, database);
  }

  /** Of several hosts, the first that takes it. */
  async dial(events: LinkEvents): Promise<Link> {
    const { host } = this.#options;
    let first: unknown;
    for (const at of host.keys()) {
      try {
        return await this.#dialHost(at, host.length, events);
      } catch (error) {
        first ??= error;
      }
    }
    throw first;
  }

  async #dialHost(at: number, of: number, { onEnd, onNotification }: LinkEvents): Promise<Link> {
    const limitMs = this.#settings.connectTimeoutMs / of;
    let socket: Socket | undefined;
    const ended = once(onEnd);
    let isMade = false;
    const taken = Object.fromEntries(TAKEN_OVER.map((name) => [name, this.#options[name]]));
    const sql = this.#postgres({
      ...taken,
      host: this.#options.host[at],
      port: this.#options.port[at] ?? this.#options.port[0],
      max: 1,
      prepare: false,
      fetch_types: false,
      idle_timeout: null,
      max_lifetime: null,
      connect_timeout: Math.max(1, limitMs / 1000),
      keep_alive: 10,
      debug: false,
      no_subscribe: true,
      onnotice: () => {},
      onnotify: onNotification,
      onclose: () => {
        if (isMade) ended();
      },
      // The library connects again by itself, with what it has in hand. Not to be had: one link is one connection.
      socket: async () => {
        if (socket !== undefined) throw new Error('the connection was closed while it was made');
        socket = await this.#open(at, limitMs);
        return socket;
      },
    });
    const end = (): Promise<void> => sql.end({ timeout: 0 }).catch(() => {});
    const destroy = (): void => {
      void end();
      closeSoon(socket);
    };
    try {
      const { peerPid, run } = await within(limitMs, 'connecting', prove(sql));
      isMade = true;
      if (socket?.destroyed !== false) throw new Error('the connection broke while it was made');
      return { query: run, peerPid, destroy };
    } catch (error) {
      // The library says goodbye by the TLS it has put over the socket: on a closed one that is thrown out of nowhere.
      void end().finally(() => socket?.destroy());
      throw error;
    }
  }

  async #open(at: number, limitMs: number): Promise<Socket> {
    const { host, path, port, socket: own } = this.#options;
    if (typeof own === 'function') return (await own(this.#options)) as Socket;
    const name = host[at]!;
    const socket = path ? connect({ path }) : connect({ host: name, port: port[at] ?? port[0]!, noDelay: true });
    socket.setKeepAlive(true, 10_000);
    const opened = new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    try {
      await within(limitMs, 'connecting', opened);
    } catch (error) {
      socket.destroy();
      throw error;
    }
    // It reads from the socket what to call the server in TLS.
    return Object.assign(socket, { host: name });
  }
}

type Run = Link['query'];

/**
 * With values the library asks first what types they have, which is one more round trip each time. A query that has its
 * values beforehand, as one has that it sends again, is sent whole. Where that does not work, the slow way is taken.
 */
async function prove(sql: PostgresSql): Promise<{ readonly run: Run; readonly peerPid: number | undefined }> {
  let peerPid: number | undefined;
  const whole: Run = async (text, values) => {
    if (values === undefined) return first(await sql.unsafe(text).raw());
    const query = sql.unsafe(text, [], { simple: false });
    Object.assign(query, { parameters: [...values] });
    const answer = await query.raw();
    peerPid = answer.state?.pid;
    return first(answer);
  };
  try {
    if ((await whole('select $1::text', [PROBE])) === PROBE) return { run: whole, peerPid };
  } catch (error) {
    // A pooler refuses logins with the same code, and they are fatal.
    const { code, severity } = error as { code?: unknown; severity?: unknown };
    if (code !== '08P01' || severity !== 'ERROR') throw error;
  }
  const slowly: Run = async (text, values) =>
    first(await sql.unsafe(text, values === undefined ? [] : [...values]).raw());
  return { run: slowly, peerPid };
}

type Rows = readonly (readonly (Uint8Array | null)[])[];

/** Several statements bring several results. */
function first(answer: Rows | readonly Rows[]): string | null {
  const isOfMany = Array.isArray(answer.at(-1)) && 'statement' in (answer.at(-1) as object);
  const rows = (isOfMany ? answer.at(-1) : answer) as Rows;
  const value = rows[0]?.[0];
  return value === null || value === undefined ? null : Buffer.from(value).toString('utf8');
}
