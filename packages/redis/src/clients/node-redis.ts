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

/** What is used of a client of the package `redis`, 5 or 6. */
export interface NodeRedisClient {
  readonly isReady: boolean;
  readonly options?: NodeRedisOptions | undefined;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(args: readonly string[]): Promise<unknown>;
  subscribe(channel: string, listener: Hears): Promise<unknown>;
  sSubscribe(channel: string, listener: Hears): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  sUnsubscribe(channel: string): Promise<unknown>;
  duplicate(options: object): NodeRedisClient;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

export interface NodeRedisCluster {
  readonly isOpen: boolean;
  readonly slots: readonly ({ readonly master: NodeRedisNode } | undefined)[];
  readonly nodeByAddress: ReadonlyMap<string, NodeRedisNode>;
  /** Typed as private by the library; nothing else tells how its nodes are reached. */
  readonly _options: NodeRedisClusterOptions;
  connect(): Promise<unknown>;
  destroy(): void;
  sendCommand(key: string | undefined, isReadOnly: boolean, args: readonly string[]): Promise<unknown>;
  nodeClient(node: NodeRedisNode): Promise<NodeRedisClient> | NodeRedisClient;
  duplicate(options: object): NodeRedisCluster;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

interface NodeRedisOptions {
  readonly socket?: Address;
  readonly keyPrefix?: string;
}

interface NodeRedisClusterOptions extends NodeRedisOptions {
  readonly rootNodes: readonly NodeRedisOptions[];
  readonly defaults?: NodeRedisOptions;
}

interface NodeRedisNode {
  readonly address: string;
  readonly host: string;
  readonly port: number;
}

type Hears = (message: string, channel: string) => void;

/** Links of node-redis to one server. */
export class NodeRedisDialer implements Dialer {
  readonly isCluster = false;
  readonly where: string;
  readonly #template: NodeRedisClient;
  readonly #settings: DialSettings;

  constructor(template: NodeRedisClient, settings: DialSettings) {
    this.where = shownAddress(template.options?.socket ?? {});
    this.#template = template;
    this.#settings = settings;
  }

  async dial(onEnd: () => void): Promise<Link> {
    const client = await dialNode(this.#template, this.#settings, onEnd);
    return {
      send: (args) => client.sendCommand(args),
      homeOf: () => '',
      listen: (_home, events) => listen(this.#template, this.#settings, events, 'subscribe'),
      destroy: () => destroy(client),
    };
  }
}

/** Links of node-redis to a Cluster. Channels are heard on the node that has their slot. */
export class NodeRedisClusterDialer implements Dialer {
  readonly isCluster = true;
  readonly where: string;
  readonly #template: NodeRedisCluster;
  readonly #settings: DialSettings;
  /** Nodes seen besides those named by the user, all of which may be gone one day. */
  #seen: readonly NodeRedisNode[] = [];

  constructor(template: NodeRedisCluster, settings: DialSettings) {
    this.where = `the cluster of ${template._options.rootNodes.map(({ socket = {} }) => shownAddress(socket)).join(', ')}`;
    this.#template = template;
    this.#settings = settings;
  }

  async dial(onEnd: () => void): Promise<Link> {
    const cluster = await this.#connect(onEnd);
    this.#remember(cluster);
    return {
      send: (args, key) => cluster.sendCommand(key, false, args),
      homeOf: (channel) => homeOf(cluster, channel),
      listen: async (home, events) => {
        const node = cluster.nodeByAddress.get(home);
        if (node === undefined) throw new Error(`node ${home} has left the cluster`);
        return listen(await cluster.nodeClient(node), this.#settings, events, 'sSubscribe');
      },
      destroy: () => {
        this.#remember(cluster);
        destroy(cluster);
      },
    };
  }

  async #connect(onEnd: () => void): Promise<NodeRedisCluster> {
    const { defaults, rootNodes } = this.#template._options;
    const seen = this.#seen.map(({ host, port }) => ({ socket: { host, port } }));
    const cluster = this.#template.duplicate({
      rootNodes: [...rootNodes, ...seen].map((node) => ({ ...node, socket: { ...node.socket } })),
      defaults: { ...defaults, ...nodeSettings(defaults, this.#settings) },
      useReplicas: false,
      // Else one node that is down keeps the whole client from connecting.
      minimizeConnections: true,
      maxCommandRedirections: 4,
      commandOptions: {},
    });
    let first: unknown;
    cluster.on('error', (error: unknown) => {
      first ??= error;
    });
    // The nodes do not repair themselves: what a lost one means, the next command through it tells.
    try {
      await within(this.#settings.connectTimeoutMs, 'connecting', cluster.connect());
    } catch (error) {
      destroy(cluster);
      throw first ?? error;
    }
    cluster.on('disconnect', onEnd);
    return cluster;
  }

  #remember(cluster: NodeRedisCluster): void {
    const seen = [...cluster.nodeByAddress.values()];
    if (seen.length > 0) this.#seen = seen;
  }
}

/** What would break a promise, were it left as the user has it. */
function nodeSettings(options: NodeRedisOptions | undefined, { connectTimeoutMs }: DialSettings): object {
  return {
    // Both would run a command at a time when nobody waits for it any more.
    disableOfflineQueue: true,
    // A heartbeat may not be refused because a batch is on its way.
    commandsQueueMaxLength: undefined,
    socket: { ...options?.socket, connectTimeout: connectTimeoutMs, reconnectStrategy: false },
    readonly: false,
    commandOptions: {},
    maintNotifications: 'disabled',
    clientSideCache: undefined,
  };
}

async function dialNode(
  template: NodeRedisClient,
  settings: DialSettings,
  onEnd: () => void,
): Promise<NodeRedisClient> {
  const client = template.duplicate(nodeSettings(template.options, settings));
  let isTold = true;
  const tell = () => {
    if (isTold || client.isReady) return;
    isTold = true;
    onEnd();
  };
  client.on('error', tell);
  client.on('end', tell);
  try {
    await within(settings.connectTimeoutMs, 'connecting', client.connect());
    await within(settings.connectTimeoutMs, 'connecting', provePresence(client));
  } catch (error) {
    destroy(client);
    throw error;
  }
  isTold = false;
  if (!client.isReady) queueMicrotask(tell);
  return client;
}

/** A server that reads its data from disk says so here. */
async function provePresence(client: NodeRedisClient): Promise<void> {
  try {
    await client.sendCommand(['PING']);
  } catch (error) {
    if (replyCode(error) !== 'NOPERM') throw error;
  }
}

async function listen(
  template: NodeRedisClient,
  settings: DialSettings,
  { onMessage, onEnd }: ListenerEvents,
  how: 'subscribe' | 'sSubscribe',
): Promise<ListenerLink> {
  const client = await dialNode(template, settings, onEnd);
  return {
    subscribe: async (channel) => void (await client[how](channel, (message) => onMessage(channel, message))),
    unsubscribe: async (channel) => void (await client[how === 'subscribe' ? 'unsubscribe' : 'sUnsubscribe'](channel)),
    destroy: () => destroy(client),
  };
}

/** One that has ended by itself throws when it is destroyed. */
function destroy(client: Pick<NodeRedisClient, 'destroy'>): void {
  try {
    client.destroy();
  } catch {
    // It is gone: that was all we wanted.
  }
}

function homeOf(cluster: NodeRedisCluster, channel: string): string {
  const home = cluster.slots[slotOf(channel)]?.master.address;
  if (home === undefined) throw new Error(`no node of the cluster has slot ${slotOf(channel)}`);
  return home;
}
