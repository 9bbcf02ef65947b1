import { NatsServer } from '../nats/NatsServer.js';
import { natsPrograms } from '../nats/programs.js';
import { asOperator, deleteStream, FLEET_STREAM, purgeStream, StreamCopy } from '../nats/streams.js';
import { nowMs } from '../now.js';
import { TestProxy } from '../TestProxy.js';
import { pause } from '../until.js';
import type { Backend, Site, SiteFault, Way } from './backend.js';

/** The server's clock cannot be moved: it asks the kernel itself. Where data is not to go back, nothing may be lost at all. */
export const nats: Backend = {
  name: 'nats',
  client: 'nats',
  whyNot: whyNoNats,
  async open({ harm }) {
    const server = await NatsServer.start();
    const urls = [server.url];
    return {
      faults: [
        serverFrozen(() => server),
        streamPurged(urls),
        { kind: 'server killed', strike: () => server.restart() },
        {
          kind: 'server restarted',
          async strike() {
            await server.stop();
            await server.start();
          },
        },
        ...(harm === 'data' ? [...losing(server), ...streamLosing(urls)] : []),
      ],
      way: () => wayTo([server]),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

export function whyNoNats(): string | undefined {
  return natsPrograms().length > 0 ? undefined : 'There is no nats-server here.';
}

export async function wayTo(servers: readonly NatsServer[]): Promise<Way> {
  const proxies = await Promise.all(servers.map(({ port }) => TestProxy.start(port)));
  return { connect: { urls: proxies.map(({ port }) => `nats://127.0.0.1:${port}`) }, proxies };
}

export function serverFrozen(pick: () => NatsServer): SiteFault {
  return {
    kind: 'server frozen',
    async strike({ spanMs }) {
      const server = pick();
      await server.freeze();
      await pause(spanMs / 2);
      server.thaw();
    },
  };
}

/** By hand. It loses nothing: replicas have read what was in it. */
export function streamPurged(urls: readonly string[]): SiteFault {
  return {
    kind: 'stream purged',
    strike: () => asOperator(urls, (client) => purgeStream(client, FLEET_STREAM)),
  };
}

function losing(server: NatsServer): SiteFault[] {
  return [
    {
      kind: 'older data',
      async strike({ lostData, spanMs }) {
        const savedAt = nowMs();
        const saved = await server.save();
        await pause(spanMs / 2);
        await server.kill();
        lostData(savedAt);
        await server.putBack(saved);
      },
    },
    {
      kind: 'data wiped',
      async strike({ lostData }) {
        await server.kill();
        lostData(0);
        await server.restart({ wipe: true });
      },
    },
  ];
}

/** While the server goes on. */
export function streamLosing(urls: readonly string[]): SiteFault[] {
  return [
    {
      kind: 'stream deleted',
      strike: ({ lostData }) =>
        asOperator(urls, async (client) => {
          await deleteStream(client, FLEET_STREAM);
          lostData(0);
        }),
    },
    {
      kind: 'stream put back',
      strike: ({ lostData, spanMs }) =>
        asOperator(urls, async (client) => {
          const copiedAt = nowMs();
          const copy = await StreamCopy.of(client, FLEET_STREAM);
          await pause(spanMs / 2);
          await copy.putBack(client, () => lostData(copiedAt));
        }),
    },
  ];
}
