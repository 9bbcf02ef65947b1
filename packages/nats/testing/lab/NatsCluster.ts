import { freePort, until } from '@botmesh/lab';
import { connect } from '@nats-io/transport-node';
import { NatsServer } from './NatsServer.js';
import type { Program } from './programs.js';

/** Three servers of one test that keep streams together. Use it with `await using`. */
export class NatsCluster implements AsyncDisposable {
  readonly servers: readonly NatsServer[];

  private constructor(servers: readonly NatsServer[]) {
    this.servers = servers;
  }

  static async start(options: { readonly program?: Program } = {}): Promise<NatsCluster> {
    const ports = [await freePort(), await freePort(), await freePort()];
    const routes = [await freePort(), await freePort(), await freePort()];
    const cluster = new NatsCluster(
      ports.map(
        (port, at) =>
          new NatsServer(port, {
            program: options.program,
            config: [
              `server_name: "n${at}"`,
              `cluster { name: "lab", listen: "127.0.0.1:${routes[at]}", routes: [${routes
                .map((route) => `"nats://127.0.0.1:${route}"`)
                .join(', ')}] }`,
            ].join('\n'),
          }),
      ),
    );
    await Promise.all(cluster.servers.map((server) => server.start()));
    await cluster.isWell();
    return cluster;
  }

  get urls(): string[] {
    return this.servers.map(({ url }) => url);
  }

  /** Waits until streams can be made. */
  async isWell(): Promise<void> {
    await until('the cluster has a leader', async () => (await this.#ask('INFO')).error === undefined, 60_000);
  }

  /** The server that leads a stream now. */
  async leader(stream: string): Promise<NatsServer> {
    let found: NatsServer | undefined;
    await until(`${stream} has a leader`, async () => {
      const { cluster } = await this.#ask<{ cluster?: { leader?: string } }>(`STREAM.INFO.${stream}`);
      found = this.servers[Number(cluster?.leader?.slice(1) ?? Number.NaN)];
      return found !== undefined;
    });
    return found!;
  }

  /** Has the leader of a stream step down. */
  async stepDown(stream: string): Promise<void> {
    await this.#ask(`STREAM.LEADER.STEPDOWN.${stream}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.servers.map((server) => server[Symbol.asyncDispose]()));
  }

  async #ask<T extends object>(what: string): Promise<T & { error?: object }> {
    const up = this.servers.filter(({ isRunning }) => isRunning).map(({ url }) => url);
    const client = await connect({ servers: up, timeout: 2_000 });
    try {
      const answer = await client.request(`$JS.API.${what}`, '{}', { timeout: 2_000 });
      return answer.json<T & { error?: object }>();
    } finally {
      await client.close();
    }
  }
}
