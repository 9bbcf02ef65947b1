import { slotOf } from './cluster-slot.js';
import {
  type Address,
  type Dialer,
  type DialSettings,
  type Link,
  type ListenerEvents,
  type ListenerLink,
  shownAddress,
} from './link.js';
import { replyCode } from './replies.js';
import { within } from './within.js';

/** What is used of a client of ioredis or iovalkey. Their Cluster has the same, and what {@link IoredisCluster} adds. */
export interface IoredisClient {
  readonly status: string;
  readonly options: Readonly<Record<string, unknown>>;
  connect(): Promise<unknown>;
  disconnect(): void;
  call(name: string, args: readonly string[]): Promise<unknown>;
  duplicate(options: object): IoredisClient;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

export interface IoredisCluster extends Omit<IoredisClient, 'duplicate'> {
  readonly startupNodes: readonly unknown[];
  readonly slots: readonly (readonly string[] | undefined)[];
  nodes(role: 'all' | 'master'): readonly IoredisClient[];
  duplicate(nodes: readonly unknown[], options: object): IoredisCluster;
}

/** Links of ioredis 5.3 and later, 6, and iovalkey, to one server or to what the Sentinels name. */
export class IoredisDialer implements Dialer {
  readonly isCluster = false;
  readonly where: string;
  readonly #template: IoredisClient;
  readonly #settings: DialSettings;
  /** Which Sentinel is asked first: the one that answered last. */
  #firstSentinel = 0;

  constructor(template: IoredisClient, settings: DialSettings) {
    const { name, sentinels } = template.options;
    this.where = Array.isArray(sentinels) ? `Sentinel group ${String(name)}` : shownAddress(template.options);
    this.#template = template;
    this.#settings = settings;
  }

  async dial(onEnd: () => void): Promise<Link> {
    const client = await this.#withSentinels((sentinels) => dialNode(this.#template, this.#settings, sentinels, onEnd));
    return {
      send: (args) => call(client, args),
      homeOf: () => '',
      listen: (_home, events) =>
        this.#withSentinels((sentinels) => listen(this.#template, this.#settings, sentinels, events, 'subscribe')),
      destroy: () => client.disconnect(),
    };
  }

  /** Begins with another Sentinel each time until one has led somewhere: a silent one uses up the time of a whole try. */
  async #withSentinels<T>(dial: (settings: object) => Promise<T>): Promise<T> {
    const { sentinels } = this.#template.options;
    if (!Array.isArray(sentinels)) return dial({});
    const first = this.#firstSentinel;
    try {
      return await dial({
        sentinels: [...(sentinels as unknown[]).slice(first), ...(sentinels as unknown[]).slice(0, first)],
        // Time for a second one in the same try.
        connectTimeout: this.#settings.connectTimeoutMs / 3,
        sentinelCommandTimeout: this.#settings.connectTimeoutMs / 3,
      });
    } catch (error) {
      this.#firstSentinel = (first + 1) % sentinels.length;
      throw error;
    }
  }
}

/** Links of a Cluster of ioredis or iovalkey. Channels are heard on the node that has their slot. */
export class IoredisClusterDialer implements Dialer {
  readonly isCluster = true;
  readonly where: string;
  readonly #template: IoredisCluster;
  readonly #settings: DialSettings;
  /** Nodes seen besides those named by the user, all of which may be gone one day. */
  #seen: readonly Address[] = [];

  constructor(template: IoredisCluster, settings: DialSettings) {
    this.where = `the cluster of ${template.startupNodes.map(shownNode).join(', ')}`;
    this.#template = template;
    this.#settings = settings;
  }

  async dial(onEnd: () => void): Promise<Link> {
    const cluster = await this.#connect(onEnd);
    this.#remember(cluster);
    return {
      send: (args) => call(cluster, args),
      homeOf: (channel) => homeOf(cluster, channel),
      listen: (home, events) => listen(anyNode(cluster), this.#settings, addressOf(home), events, 'ssubscribe'),
      destroy: () => {
        this.#remember(cluster);
        cluster.disconnect();
      },
    };
  }

  async #connect(onEnd: () => void): Promise<IoredisCluster> {
    const { connectTimeoutMs } = this.#settings;
    const nodes = [...this.#template.startupNodes, ...this.#seen];
    const cluster = this.#template.duplicate(nodes, clusterSettings(this.#template, this.#settings));
    const first = firstErrorOf(cluster);
    try {
      await within(connectTimeoutMs, 'connecting', cluster.connect());
    } catch (error) {
      cluster.disconnect();
      throw lastNodeError(first.error) ?? error;
    }
    whenEnded(cluster, onEnd);
    await this.#connectNodes(cluster);
    return cluster;
  }

  /** A node that is not connected yet refuses all commands but the first. One that is silent is not waited for. */
  async #connectNodes(cluster: IoredisCluster): Promise<void> {
    const waiting = cluster.nodes('master').filter(({ status }) => status === 'wait');
    const { timeoutMs } = this.#settings;
    await Promise.allSettled(waiting.map((node) => within(timeoutMs, 'connecting', node.connect())));
  }

  #remember(cluster: IoredisCluster): void {
    const seen = cluster
      .nodes('all')
      .map(({ options }) => ({ host: String(options.host), port: Number(options.port) }));
    // A cluster that has ended knows no nodes any more.
    if (seen.length > 0) this.#seen = seen;
  }
}

/**
 * In capitals, older versions know no command's keys: a Cluster then asks any node, which may be the one that is down.
 * Arguments in one list: spread over a call, more than some hundred thousand do not fit on the stack.
 */
function call(client: Pick<IoredisClient, 'call'>, [name = '', ...args]: readonly string[]): Promise<unknown> {
  return client.call(name.toLowerCase(), args);
}

/** What would break a promise, were it left as the user has it. */
function nodeSettings({ connectTimeoutMs }: DialSettings): object {
  return {
    lazyConnect: true,
    connectTimeout: connectTimeoutMs,
    // Each would run a command at a time when nobody waits for it any more.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    retryStrategy: null,
    sentinelRetryStrategy: null,
    reconnectOnError: null,
    autoResubscribe: false,
    // Needs the right to INFO, and knows nothing that the first reply does not say.
    enableReadyCheck: false,
    // Time for the rest of what is written to go out; a server that is silent takes none of it.
    disconnectTimeout: 50,
    enableAutoPipelining: false,
    commandTimeout: undefined,
    monitor: false,
    readOnly: false,
    role: 'master',
    stringNumbers: false,
    replyMapping: 'legacy',
  };
}

function clusterSettings(template: IoredisCluster, settings: DialSettings): object {
  const { connectTimeoutMs } = settings;
  const redisOptions = template.options.redisOptions as object | undefined;
  const {
    enableOfflineQueue: _,
    retryStrategy: __,
    readOnly: ___,
    role: ____,
    ...ofNodes
  } = nodeSettings(settings) as Record<string, unknown>;
  return {
    lazyConnect: true,
    enableOfflineQueue: false,
    // Asks a node at random, which may be the one that is frozen; the first script tells as well.
    enableReadyCheck: false,
    clusterRetryStrategy: null,
    clusterNodeRetryStrategy: undefined,
    shardedSubscribers: false,
    scaleReads: 'master',
    enableAutoPipelining: false,
    maxRedirections: 4,
    // Zero: the library keeps no command to send it later.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnMoved: 0,
    retryDelayOnTryAgain: 20,
    // Time for another node, when the first one is silent.
    slotsRefreshTimeout: connectTimeoutMs / 3,
    redisOptions: { ...redisOptions, ...ofNodes },
  };
}

async function dialNode(
  template: IoredisClient,
  settings: DialSettings,
  address: object,
  onEnd: () => void,
): Promise<IoredisClient> {
  const client = template.duplicate({ ...nodeSettings(settings), ...address });
  const first = firstErrorOf(client);
  try {
    await within(settings.connectTimeoutMs, 'connecting', client.connect());
    await within(settings.connectTimeoutMs, 'connecting', provePresence(client));
    // A refused SELECT is told by an event only, and leaves the connection in database 0.
    if (first.error !== undefined) throw first.error;
  } catch (error) {
    client.disconnect();
    throw first.error ?? error;
  }
  whenEnded(client, onEnd);
  return client;
}

/** Whatever went wrong at the login has been told by the time this is answered. */
async function provePresence(client: IoredisClient): Promise<void> {
  try {
    await client.call('ping', []);
  } catch (error) {
    if (replyCode(error) !== 'NOPERM') throw error;
  }
}

async function listen(
  template: IoredisClient,
  settings: DialSettings,
  address: object,
  { onMessage, onEnd }: ListenerEvents,
  how: 'subscribe' | 'ssubscribe',
): Promise<ListenerLink> {
  const client = await dialNode(template, settings, address, onEnd);
  client.on(how === 'subscribe' ? 'message' : 'smessage', onMessage);
  return {
    subscribe: async (channel) => void (await client.call(how, [channel])),
    unsubscribe: async (channel) =>
      void (await client.call(how === 'subscribe' ? 'unsubscribe' : 'sunsubscribe', [channel])),
    destroy: () => client.disconnect(),
  };
}

function firstErrorOf(client: Pick<IoredisClient, 'on'>): { readonly error: unknown } {
  const first: { error: unknown } = { error: undefined };
  // It has a listener for good: an error event without one is thrown, or printed.
  client.on('error', (error: unknown) => {
    first.error ??= error;
  });
  return first;
}

function whenEnded(client: Pick<IoredisClient, 'on' | 'status'>, onEnd: () => void): void {
  let isTold = false;
  const tell = () => {
    if (isTold) return;
    isTold = true;
    onEnd();
  };
  client.on('end', tell);
  if (client.status === 'end') queueMicrotask(tell);
}

function lastNodeError(error: unknown): unknown {
  return (error as { lastNodeError?: unknown } | undefined)?.lastNodeError ?? error;
}

function homeOf(cluster: IoredisCluster, channel: string): string {
  const home = cluster.slots[slotOf(channel)]?.[0];
  if (home === undefined) throw new Error(`no node of the cluster has slot ${slotOf(channel)}`);
  return home;
}

function anyNode(cluster: IoredisCluster): IoredisClient {
  const [node] = cluster.nodes('all');
  if (node === undefined) throw new Error('no node of the cluster is known');
  return node;
}

function addressOf(home: string): Address {
  const at = home.lastIndexOf(':');
  return { host: home.slice(0, at), port: Number(home.slice(at + 1)) };
}

function shownNode(node: unknown): string {
  if (typeof node === 'number') return shownAddress({ port: node });
  // As a string it may be a URL with a password.
  return typeof node === 'string' ? node.replace(/^.*@/, '') : shownAddress(node as Address);
}
