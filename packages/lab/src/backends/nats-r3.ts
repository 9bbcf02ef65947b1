import { NatsCluster } from '../nats/NatsCluster.js';
import type { NatsServer } from '../nats/NatsServer.js';
import { FLEET_STREAM } from '../nats/streams.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { serverFrozen, streamLosing, streamPurged, wayTo, whyNoNats } from './nats.js';

const SETTLES_MS = 60_000;

/** Three servers, each of which has the stream. */
export const natsR3: Backend = {
  name: 'nats-r3',
  client: 'nats',
  whyNot: whyNoNats,
  async open({ harm, random }) {
    const cluster = await NatsCluster.start();
    const anyServer = () => cluster.servers[Math.floor(random() * cluster.servers.length)]!;
    return {
      coordinator: { replicas: 3 },
      faults: [
        serverFrozen(anyServer),
        onceLed(cluster, streamPurged(cluster.urls)),
        {
          kind: 'leader stepped down',
          strike: () => cluster.stepDown(FLEET_STREAM),
        },
        goneAndBack('leader killed', cluster, () => cluster.leaderOf(FLEET_STREAM)),
        goneAndBack('server killed', cluster, async () => anyServer()),
        ...(harm === 'data' ? streamLosing(cluster.urls).map((fault) => onceLed(cluster, fault)) : []),
      ],
      way: () => wayTo(cluster.servers),
      [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

/** An operator needs somebody who answers. */
function onceLed(cluster: NatsCluster, { kind, strike }: SiteFault): SiteFault {
  return {
    kind,
    async strike(how) {
      await cluster.isWhole(FLEET_STREAM, SETTLES_MS);
      await strike(how);
    },
  };
}

/** Killed, while the others go on, and started again once they do. The next fault waits until it has all that they have. */
function goneAndBack(kind: string, cluster: NatsCluster, pick: () => Promise<NatsServer>): SiteFault {
  return {
    kind,
    async strike() {
      const server = await pick();
      await server.kill();
      await cluster.leaderOf(FLEET_STREAM, SETTLES_MS);
      await server.start();
      await cluster.isWhole(FLEET_STREAM, SETTLES_MS);
    },
  };
}
