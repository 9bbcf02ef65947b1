import { BUS_OFFSET } from '../ports.js';
import { until } from '../until.js';
import { anyProgram, type Program } from './programs.js';
import { RedisServer } from './RedisServer.js';

export interface ServerClusterOptions {
  program?: Program;
  /** After how long without an answer a node counts as down. Default 1500. */
  nodeTimeoutMs?: number;
  /** More lines of each node's configuration. */
  config?: readonly string[];
}

const SLOTS = 16_384;
const PRIMARIES = 3;

/** A Cluster of three primaries, each with a replica, on loopback. */
export class ServerCluster implements AsyncDisposable {
  /** The first three began as primaries; the replica of server n is server n + 3. */
  readonly servers: RedisServer[] = [];

  private constructor() {}

  static async start(options: ServerClusterOptions = {}): Promise<ServerCluster> {
    const { config: more = [], program = anyProgram(), nodeTimeoutMs = 1500 } = options;
    const cluster = new ServerCluster();
    const config = (port: number) => [
      'cluster-enabled yes',
      `cluster-node-timeout ${nodeTimeoutMs}`,
      `cluster-port ${port + BUS_OFFSET}`,
      // Without it a replica has nothing for the first five seconds, and never takes over.
      'repl-diskless-sync-delay 0',
      // Until its first ping a replica counts as one that has nothing.
      'repl-ping-replica-period 1',
      ...more,
    ];
    try {
      for (let n = 0; n < 2 * PRIMARIES; n++)
        cluster.servers.push(await RedisServer.start({ program, configFor: config }));
      await cluster.#join();
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get ports(): number[] {
    return this.servers.map(({ port }) => port);
  }

  /** The server that has a slot now, as those that answer see it. */
  async ownerOf(slot: number): Promise<RedisServer> {
    const ranges = (await this.#anyAnswering().ask('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const range = ranges.find(([first, last]) => first <= slot && slot <= last);
    const owner = this.servers.find(({ port }) => port === range?.[2][1]);
    if (owner === undefined) throw new Error(`Nobody has slot ${slot}.`);
    return owner;
  }

  replicaOf(primary: RedisServer): RedisServer {
    const at = this.servers.indexOf(primary);
    return this.servers[(at + PRIMARIES) % (2 * PRIMARIES)]!;
  }

  /** Resolves when the replica of a primary that is down has its slots, and all the others know. */
  async failedOver(old: RedisServer, limitMs = 30_000): Promise<RedisServer> {
    const heir = this.replicaOf(old);
    const others = this.servers.filter((server) => server !== old);
    const knows = async (server: RedisServer) => {
      const ranges = (await server.ask('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
      return ranges.every(([, , [, port]]) => port !== old.port) && ranges.length >= PRIMARIES;
    };
    await until(
      'the replica has taken over',
      async () => (await Promise.all(others.map(knows))).every(Boolean),
      limitMs,
    );
    await until(
      'the cluster is whole',
      async () => /cluster_state:ok/.test(String(await heir.ask('CLUSTER', 'INFO'))),
      limitMs,
    );
    return heir;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.servers.map((server) => server[Symbol.asyncDispose]()));
  }

  async #join(): Promise<void> {
    for (const [n, server] of this.servers.slice(0, PRIMARIES).entries()) {
      const from = Math.ceil((SLOTS * n) / PRIMARIES);
      const to = Math.ceil((SLOTS * (n + 1)) / PRIMARIES) - 1;
      await server.ask('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
      await server.ask('CLUSTER', 'SET-CONFIG-EPOCH', String(n + 1));
    }
    // Each meets all the others: by hearsay it takes seconds.
    for (const server of this.servers) {
      for (const { port } of this.servers) {
        if (port === server.port) continue;
        await server.ask('CLUSTER', 'MEET', '127.0.0.1', String(port), String(port + BUS_OFFSET));
      }
    }
    for (const replica of this.servers.slice(PRIMARIES)) await this.#follow(replica);
    await until('every node sees a whole cluster', () => this.#isWhole(), 30_000);
  }

  async #follow(replica: RedisServer): Promise<void> {
    const id = String(await this.replicaOf(replica).ask('CLUSTER', 'MYID'));
    await until('the replica knows its primary', async () => {
      return String(await replica.ask('CLUSTER', 'NODES')).includes(id);
    });
    await replica.ask('CLUSTER', 'REPLICATE', id);
  }

  async #isWhole(): Promise<boolean> {
    const states = this.servers.map(async (server, n) => {
      if (!/cluster_state:ok/.test(String(await server.ask('CLUSTER', 'INFO')))) return false;
      const ranges = (await server.ask('CLUSTER', 'SLOTS')) as unknown[][];
      // First and last slot, the primary, and its replica.
      if (ranges.length !== PRIMARIES || ranges.some((range) => range.length !== 4)) return false;
      return n < PRIMARIES || /master_link_status:up/.test(String(await server.ask('INFO', 'replication')));
    });
    return (await Promise.all(states)).every(Boolean);
  }

  #anyAnswering(): RedisServer {
    const server = this.servers.find((one) => one.isRunning && !one.isFrozen);
    if (server === undefined) throw new Error('No node of the cluster runs.');
    return server;
  }
}
