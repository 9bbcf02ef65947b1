import { freePort } from '../ports.js';
import { until } from '../until.js';
import { NatsServer } from './NatsServer.js';
import { anyNats, type NatsProgram } from './programs.js';

const NODES = 3;

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

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.servers.map((server) => server[Symbol.asyncDispose]()));
  }
}
