import type { ConfigError } from '@botmesh/core/spi';
import {
  connect,
  createInbox,
  headers,
  type NatsConnection,
  type NodeConnectionOptions,
} from '@nats-io/transport-node';
import type { NatsClient, NatsMessage, NatsServerInfo, NatsSubscription } from './client.js';
import { ApiError, type ApiErrorJson, explain, isNoResponders, noAnswer, notConnected, rights } from './failures.js';
import { Sockets } from './sockets.js';
import { within } from './within.js';

export interface LinkOptions {
  /** Host and port of each, without a login. */
  readonly servers: readonly string[];
  /** What else `connect` takes: a login, certificates. */
  readonly connection: NodeConnectionOptions | undefined;
  /** In place of `servers`. Never closed. */
  readonly client: unknown;
  readonly domain: string | undefined;
  readonly timeoutMs: number;
  readonly connectTimeoutMs: number;
}

/** What is asked of the server, by the part of the subject behind `API.` */
type Ask = Readonly<Record<string, unknown>>;

/** A connection, and what it does with JetStream: requests to its API, and messages that are published and acknowledged. */
export class Link {
  readonly #client: NatsClient;
  readonly #options: LinkOptions;
  /** Of a connection of our own. */
  readonly #sockets: Sockets | undefined;
  readonly #api: string;
  readonly #inboxPrefix: string | undefined;
  readonly #onBack = new Set<() => void>();
  #isUp = true;
  /** The last time that the server refused something for want of rights, and what. */
  #refusal: ConfigError | undefined;

  private constructor(client: NatsClient, options: LinkOptions, sockets?: Sockets) {
    this.#client = client;
    this.#options = options;
    this.#sockets = sockets;
    this.#api = options.domain === undefined ? '$JS.API' : `$JS.${options.domain}.API`;
    this.#inboxPrefix = (client as { options?: { inboxPrefix?: string } }).options?.inboxPrefix;
    void this.#watch();
  }

  static async open(options: LinkOptions): Promise<Link> {
    if (options.client !== undefined) return new Link(options.client as NatsClient, options);
    const { connection, connectTimeoutMs, servers } = options;
    const settings = {
      name: 'botmesh',
      // As fast as a heartbeat needs it: what calls meanwhile fails and is made again.
      reconnectTimeWait: Math.min(250, options.timeoutMs / 4),
      pingInterval: Math.max(1_000, options.timeoutMs),
      ...connection,
      servers: [...servers],
      maxReconnectAttempts: -1,
      timeout: connectTimeoutMs,
    };
    const sockets = new Sockets();
    try {
      const client: NatsConnection = await sockets.during(() => connect(settings));
      return new Link(client as unknown as NatsClient, options, sockets);
    } catch (cause) {
      sockets.destroy();
      throw explain(servers.join(', '), cause);
    }
  }

  get where(): string {
    return this.#options.servers.join(', ') || 'the NATS server';
  }

  /** @throws CoordinationUnavailableError while it is not connected: nothing may be queued. */
  get info(): NatsServerInfo {
    const { info } = this.#client;
    if (info === undefined || !this.#isUp || this.#client.isClosed()) throw notConnected(this.where);
    return info;
  }

  /**
   * What changes whenever the process that has the stream may have lost writes. Null where that cannot be told: in a cluster
   * another server may have it. Then only what is read shows a loss.
   */
  get server(): string | null {
    const { cluster, domain, jetstream, server_id } = this.info;
    const isElsewhere = this.#options.domain !== undefined && this.#options.domain !== domain;
    return jetstream === true && cluster === undefined && !isElsewhere ? server_id : null;
  }

  /** Whether it is closed, and ours to open anew. A login that is refused for a while closes it. */
  get isOver(): boolean {
    return this.#sockets !== undefined && this.#client.isClosed();
  }

  inbox(): string {
    return createInbox(this.#inboxPrefix);
  }

  /** A request to JetStream. Rejects with {@link ApiError} when it says no. */
  async ask<T>(what: string, request: Ask = {}): Promise<T> {
    const { jetstream } = this.info;
    const { timeoutMs } = this.#options;
    let message: NatsMessage;
    try {
      const sent = this.#client.request(`${this.#api}.${what}`, JSON.stringify(request), { timeout: timeoutMs });
      message = await within(timeoutMs * 1.5, what, sent);
    } catch (cause) {
      throw jetstream === true && isNoResponders(cause) ? noAnswer(this.where, cause) : explain(this.where, cause);
    }
    const answer = JSON.parse(new TextDecoder().decode(message.data)) as T & { error?: ApiErrorJson };
    if (answer.error !== undefined) throw new ApiError(what, answer.error);
    return answer;
  }

  publish(subject: string, payload: Uint8Array, reply: string, expected: Readonly<Record<string, string>> = {}): void {
    void this.info;
    const names = Object.keys(expected);
    if (names.length === 0) {
      this.#client.publish(subject, payload, { reply });
      return;
    }
    const given = headers();
    for (const name of names) given.set(name, expected[name]!);
    this.#client.publish(subject, payload, { reply, headers: given as never });
  }

  /** Publishes, and resolves with the place that it got. Rejects with {@link ApiError} when it was refused. */
  async put(subject: string, payload: Uint8Array, expected?: Readonly<Record<string, string>>): Promise<number> {
    const inbox = this.inbox();
    let off: NatsSubscription | undefined;
    try {
      const told = new Promise<NatsMessage>((resolve) => {
        off = this.subscribe(inbox, resolve);
      });
      this.publish(subject, payload, inbox, expected);
      return seqOf(await within(this.#options.timeoutMs, 'publish', told));
    } catch (cause) {
      throw explain(this.where, this.#refusal ?? cause);
    } finally {
      off?.unsubscribe();
    }
  }

  respond(subject: string): void {
    if (this.#isUp) this.#client.publish(subject);
  }

  subscribe(subject: string, hear: (message: NatsMessage) => void): NatsSubscription {
    const callback = (error: Error | null, message: NatsMessage) => {
      if (error === null) hear(message);
    };
    return this.#client.subscribe(subject, { callback });
  }

  /** Tells when it is connected again, closed, or when the server refused something. Returns how to end that. */
  onBack(listener: () => void): () => void {
    this.#onBack.add(listener);
    return () => this.#onBack.delete(listener);
  }

  /** What the server refused for want of rights since the last call. */
  takeRefusal(): ConfigError | undefined {
    const refusal = this.#refusal;
    this.#refusal = undefined;
    return refusal;
  }

  async close(): Promise<void> {
    if (this.#sockets === undefined) return;
    await this.#client.close();
    this.#sockets.destroy();
  }

  async #watch(): Promise<void> {
    for await (const { error, type } of this.#client.status()) {
      if (type === 'disconnect' || type === 'close') this.#isUp = false;
      if (type === 'reconnect') this.#isUp = true;
      if (type === 'error') this.#refusal = rights(this.where, error) ?? this.#refusal;
      if (type === 'reconnect' || (type === 'error' && this.#refusal !== undefined)) this.#tell();
    }
    this.#isUp = false;
    this.#tell();
  }

  #tell(): void {
    for (const listener of [...this.#onBack]) listener();
  }
}

/** The place that an acknowledgement names. */
export function seqOf({ data, headers: told }: NatsMessage): number {
  if (told?.code === 503) throw new ApiError('publish', { code: 503, err_code: 10059, description: 'no stream' });
  const answer = JSON.parse(new TextDecoder().decode(data)) as { seq?: number; error?: ApiErrorJson };
  if (answer.error !== undefined) throw new ApiError('publish', answer.error);
  return answer.seq ?? 0;
}
