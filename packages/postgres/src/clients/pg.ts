import { Socket } from 'node:net';
import { closeSoon, type Dialer, type DialSettings, type Link, type LinkEvents, shownPlace } from './link.js';
import { within } from './within.js';

/** What is used of a client of pg 8. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(config: object): Promise<PgResult | readonly PgResult[]>;
  end(): Promise<void>;
  readonly processID?: number | null;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

interface PgResult {
  readonly rows: readonly (readonly (string | null)[])[];
}

export type PgClientClass = new (config: object) => PgClient;

export interface PgConfig {
  readonly [name: string]: unknown;
  readonly stream?: unknown;
}

/** Left out of every answer: parsing. */
const AS_TEXT = { getTypeParser: () => (value: string) => value };

/** What would break a promise, were it left as the user has it. */
const SETTINGS = {
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  query_timeout: undefined,
  binary: false,
};

/** Links of pg 8. */
export class PgDialer implements Dialer {
  readonly where: string;
  readonly #Client: PgClientClass;
  readonly #config: PgConfig;
  readonly #settings: DialSettings;

  constructor(Client: PgClientClass, config: PgConfig, settings: DialSettings) {
    this.#Client = Client;
    this.#config = config;
    this.#settings = settings;
    // Made to be asked: the library reads URL, environment and defaults. It does not connect.
    const { host, port, database } = new Client(config) as unknown as Record<string, unknown>;
    this.where = shownPlace(String(host), Number(port), String(database));
  }

  async dial({ onEnd, onNotification }: LinkEvents): Promise<Link> {
    const { connectTimeoutMs } = this.#settings;
    const { stream: own } = this.#config;
    let socket = typeof own === 'function' ? undefined : new Socket();
    // Versions before 8.9 take no function.
    const stream = socket ?? ((config: unknown): Socket => (socket = (own as (config: unknown) => Socket)(config)));
    const client = new this.#Client({
      ...this.#config,
      ...SETTINGS,
      connectionTimeoutMillis: connectTimeoutMs,
      stream,
    });
    const destroy = (): void => {
      void client.end().catch(() => {});
      closeSoon(socket);
    };
    // Without a listener an error is thrown out of nowhere.
    client.on('error', () => socket?.destroy());
    client.on('end', once(onEnd));
    client.on('notification', ({ channel, payload = '' }: { channel: string; payload?: string }) => {
      onNotification?.(channel, payload);
    });
    try {
      await within(connectTimeoutMs, 'connecting', client.connect());
    } catch (error) {
      destroy();
      socket?.destroy();
      throw error;
    }
    return {
      peerPid: client.processID ?? undefined,
      query: async (text, values) => {
        const answer = await client.query({ text, values, rowMode: 'array', types: AS_TEXT });
        const last = Array.isArray(answer) ? (answer as readonly PgResult[]).at(-1) : (answer as PgResult);
        return last?.rows[0]?.[0] ?? null;
      },
      destroy,
    };
  }
}

export function once(act: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    act();
  };
}
