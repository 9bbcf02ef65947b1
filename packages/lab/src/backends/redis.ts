import { whyNoMovingClock } from '../moving-clock.js';
import { nowMs } from '../now.js';
import { serverPrograms } from '../redis/programs.js';
import { RedisServer } from '../redis/RedisServer.js';
import { TestProxy } from '../TestProxy.js';
import { pause } from '../until.js';
import type { Backend, Site, SiteFault } from './backend.js';
import { clockStepMs } from './clock-steps.js';

export const redis: Backend = {
  name: 'redis',
  client: 'redis',
  whyNot: whyNoRedis,
  async open({ harm, random }) {
    const clock = harm === 'clock' && whyNoMovingClock() === undefined;
    const server = await RedisServer.start({ persistence: 'aof', clock });
    return {
      faults: [...common(server), ...(clock ? [clockStep(server)] : losing(server))],
      async way() {
        const proxy = await TestProxy.start(server.port);
        const library = random() < 0.5 ? 'ioredis' : 'redis';
        return { connect: { library, port: proxy.port }, proxies: [proxy] };
      },
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    } satisfies Site;
  },
};

export function whyNoRedis(): string | undefined {
  return serverPrograms().length > 0 ? undefined : 'There is no redis-server or valkey-server here.';
}

/** What costs no data, since every command is on the disk before it is answered. */
function common(server: RedisServer): SiteFault[] {
  return [
    ...onOne(() => server),
    { kind: 'server killed', strike: () => server.restart() },
    {
      kind: 'memory full',
      async strike({ spanMs }) {
        await server.ask('CONFIG', 'SET', 'maxmemory', '1');
        await pause(spanMs);
        await server.ask('CONFIG', 'SET', 'maxmemory', '0');
      },
    },
  ];
}

/** What may happen to any server of a set. */
export function onOne(pick: () => RedisServer): SiteFault[] {
  return [
    {
      kind: 'server frozen',
      async strike({ spanMs }) {
        const server = pick();
        await server.freeze();
        await pause(spanMs / 2);
        server.thaw();
      },
    },
    {
      kind: 'scripts forgotten',
      async strike() {
        await pick().ask('SCRIPT', 'FLUSH');
      },
    },
    {
      kind: 'connections ended',
      async strike({ random }) {
        await pick().ask('CLIENT', 'KILL', 'TYPE', random() < 0.5 ? 'normal' : 'pubsub', 'SKIPME', 'yes');
      },
    },
  ];
}

function losing(server: RedisServer): SiteFault[] {
  return [
    {
      kind: 'older data',
      async strike({ lostData, spanMs }) {
        const savedAt = nowMs();
        const saved = server.save();
        await pause(spanMs / 2);
        await server.kill();
        lostData(savedAt);
        await server.putBack(saved);
      },
    },
    {
      kind: 'data flushed',
      async strike({ lostData }) {
        await server.ask('FLUSHALL');
        lostData(0);
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

function clockStep(server: RedisServer): SiteFault {
  return {
    kind: 'clock step',
    async strike({ random }) {
      await server.moveClock(clockStepMs(random));
    },
  };
}
