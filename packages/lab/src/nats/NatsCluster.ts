import { freePort } from '../ports.js';
import { until } from '../until.js';
import { NatsServer } from './NatsServer.js';
import { anyNats, type NatsProgram } from './programs.js';
import { askJetStream, asOperator } from './streams.js';

const NODES = 3;

interface StreamInfo {
  readonly cluster?: {
    readonly leader?: string;
    readonly replicas?: readonly { readonly current: boolean; readonly offline?: boolean }[];
  };
}

/** Three NATS servers with JetStream, which replicate to each other, on loopback. */
export class NatsCluster implements AsyncDisposable {
  readonly servers: NatsServer[] = [];

  private constructor() {}

  static async start({ program = anyNats() }: { program?: NatsProgram } = {}): Promise<NatsCluster> {
    const cluster = new NatsCluster();
    try {
      const ports = await Promise.all(Array.from({ length: NODES }, () => freePort()));
      const routes = ports.map((port) => `nats-route://127.0.0.1:${port}`).join(', ');
      for (const [n, port] of ports.entries()) {
        const config = [
          `server_name: n${n + 1}`,
          `cluster { name: lab, listen: 127.0.0.1:${port}, routes: [${routes}] }`,
        ];
        cluster.servers.push(await NatsServer.make({ program, config }));
      }
      await Promise.all(cluster.servers.map((server) => server.start()));
      await Promise.all(cluster.servers.map((server) => server.isHealthy(30_000)));
      return cluster;
    } catch (error) {
      await cluster[Symbol.asyncDispose]();
      throw error;
    }
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url);
  }

  /** The server that those which answer take for the leader of JetStream; undefined while there is none. */
  async leader(): Promise<NatsServer | undefined> {
    for (const server of this.servers) {
      if (!server.isRunning || server.isFrozen) continue;
      const { meta_cluster: meta } = (await server.monitor('/jsz')) as { meta_cluster?: { leader?: string } };
      const name = meta?.leader;
      if (name !== undefined && name !== '') return this.servers[Number(name.slice(1)) - 1];
    }
    return undefined;
  }

  /** Resolves with the new leader when one that is down or frozen is no leader any more. */
  async failedOver(old: NatsServer, limitMs = 30_000): Promise<NatsServer> {
    let now: NatsServer | undefined;
    const isAnother = async (): Promise<boolean> => {
      now = await this.leader();
      return now !== undefined && now !== old;
    };
    await until('another server leads', isAnother, limitMs);
    return now!;
  }

  /** Resolves with the server that leads a stream, which runs. */
  async leaderOf(stream: string, limitMs = 30_000): Promise<NatsServer> {
    let found: NatsServer | undefined;
    const isLed = async (): Promise<boolean> => {
      const name = (await this.#info(stream)).cluster?.leader ?? '';
      found = this.servers[Number(name.slice(1)) - 1];
      return found?.isRunning === true && !found.isFrozen;
    };
    await until(`${stream} has a leader`, isLed, limitMs);
    return found!;
  }

  /** Has the leader of a stream step down. */
  async stepDown(stream: string): Promise<void> {
    // Without a leader nobody answers, and nobody has to step down.
    await asOperator(this.#running, (client) => askJetStream(client, `STREAM.LEADER.STEPDOWN.${stream}`)).catch(
      () => {},
    );
  }

  /** Resolves when every server has all of a stream. */
  async isWhole(stream: string, limitMs = 30_000): Promise<void> {
    const hasAll = async (): Promise<boolean> => {
      const { leader, replicas = [] } = (await this.#info(stream)).cluster ?? {};
      const current = replicas.filter(({ current: isCurrent, offline }) => isCurrent && offline !== true);
      return leader !== undefined && current.length === NODES - 1;
    };
    await until(`every server has ${stream}`, hasAll, limitMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.servers.map((server) => server[Symbol.asyncDispose]()));
  }

  get #running(): string[] {
    return this.servers.filter(({ isFrozen, isRunning }) => isRunning && !isFrozen).map(({ url }) => url);
  }

  /** Nothing while nobody answers, as during an election. */
  async #info(stream: string): Promise<StreamInfo> {
    const ask = asOperator(this.#running, (client) => askJetStream<StreamInfo>(client, `STREAM.INFO.${stream}`));
    return ask.catch(() => ({}));
  }
}
