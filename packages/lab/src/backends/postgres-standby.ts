import { nowMs } from '../now.js';
import { PostgresServer } from '../postgres/PostgresServer.js';
import type { TestProxy } from '../TestProxy.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { onOne, UNFLUSHED_MS, wayTo, whyNoPostgres } from './postgres.js';

/** An asynchronous standby is behind by so much at most. */
const LAG_MS = 1000;

export const postgresStandby: Backend = {
  name: 'postgres-standby',
  client: 'postgres',
  whyNot: whyNoPostgres,
  async open({ random }) {
    const pair = await Pair.start();
    return {
      faults: [...onOne(() => pair.primary), failover(pair)],
      async way() {
        const way = await wayTo(pair.primary.port, random);
        pair.ways.push(...way.proxies);
        return way;
      },
      [Symbol.asyncDispose]: () => pair[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

/** A primary and its standby; after a failover the standby is the primary, and gets a new standby. */
class Pair implements AsyncDisposable {
  primary: PostgresServer;
  standby: PostgresServer;
  readonly ways: TestProxy[] = [];

  private constructor(primary: PostgresServer, standby: PostgresServer) {
    this.primary = primary;
    this.standby = standby;
  }

  static async start(): Promise<Pair> {
    const primary = await PostgresServer.start();
    try {
      return new Pair(primary, await primary.standby());
    } catch (error) {
      await primary[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** The old one is gone, or has to be, before anybody reaches the new one. */
  async promote(): Promise<PostgresServer> {
    const old = this.primary;
    await this.standby.promote();
    this.primary = this.standby;
    for (const way of this.ways) {
      way.turnTo(this.primary.port);
      way.reset();
    }
    return old;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.primary, this.standby].map((server) => server[Symbol.asyncDispose]()));
  }
}

function failover(pair: Pair): SiteFault {
  return {
    kind: 'failover',
    async strike({ lostData, random }) {
      const keptUntil = nowMs() - LAG_MS - UNFLUSHED_MS;
      const isKilled = random() < 0.5;
      await (isKilled ? pair.primary.kill() : pair.primary.freeze());
      lostData(keptUntil);
      const old = await pair.promote();
      if (!isKilled) old.thaw();
      await old[Symbol.asyncDispose]();
      pair.standby = await pair.primary.standby();
    },
  };
}
