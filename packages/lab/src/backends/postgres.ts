import { MovingClock, whyNoMovingClock } from '../moving-clock.js';
import { nowMs } from '../now.js';
import { PostgresServer } from '../postgres/PostgresServer.js';
import { postgresFolder } from '../postgres/programs.js';
import { TestProxy } from '../TestProxy.js';
import { pause } from '../until.js';
import type { Backend, Site, SiteFault, Way } from './backend.js';
import { clockStepMs } from './clock-steps.js';

/** What a crash may cost where steps do not wait for the disk. */
export const UNFLUSHED_MS = 1000;

const OURS = "backend_type = 'client backend' and pid <> pg_backend_pid()";

export const postgres: Backend = {
  name: 'postgres',
  client: 'postgres',
  whyNot: whyNoPostgres,
  async open({ harm, random, seed }) {
    const clock = harm === 'clock' && whyNoMovingClock() === undefined ? new MovingClock() : undefined;
    const server = await PostgresServer.start(clock === undefined ? {} : { environment: clock.environment });
    return {
      coordinator: { wakeUp: seed % 3 === 0 ? 'poll' : 'listen' },
      faults: [...onOne(() => server), restart(server), ...(clock === undefined ? losing(server) : [clockStep(clock)])],
      way: async () => wayTo(server.port, random),
      async [Symbol.asyncDispose]() {
        await server[Symbol.asyncDispose]();
        clock?.[Symbol.dispose]();
      },
    } satisfies Site;
  },
};

export function whyNoPostgres(): string | undefined {
  try {
    postgresFolder();
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

export async function wayTo(port: number, random: () => number): Promise<Way> {
  const proxy = await TestProxy.start(port);
  const url = `postgres://postgres@127.0.0.1:${proxy.port}/postgres`;
  return { connect: { by: random() < 0.5 ? 'pool' : 'instance', url }, proxies: [proxy] };
}

/** What costs no data. */
export function onOne(pick: () => PostgresServer): SiteFault[] {
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
      kind: 'connections ended',
      async strike({ random }) {
        const which = random() < 0.5 ? OURS : `${OURS} and query ~* '^(un)?listen'`;
        await pick().ask(`select pg_terminate_backend(pid) from pg_stat_activity where ${which}`);
      },
    },
    {
      // As a dump or a report does: versions of rows stay, and lie in the way.
      kind: 'snapshot kept',
      async strike({ spanMs }) {
        const server = pick();
        await server.ask('begin isolation level repeatable read');
        await server.ask('select count(*) from botmesh.entry');
        await pause(spanMs);
        await server.ask('rollback');
      },
    },
    {
      kind: 'row locked',
      async strike({ spanMs }) {
        const server = pick();
        await server.ask('begin');
        await server.ask('select from botmesh.mesh for update');
        await pause(spanMs / 2);
        await server.ask('rollback');
      },
    },
  ];
}

function restart(server: PostgresServer): SiteFault {
  return {
    kind: 'server restarted',
    async strike() {
      await server.stop();
      await server.start();
    },
  };
}

function losing(server: PostgresServer): SiteFault[] {
  return [
    {
      kind: 'server killed',
      async strike({ lostData }) {
        const keptUntil = nowMs() - UNFLUSHED_MS;
        await server.kill();
        lostData(keptUntil);
        await server.start();
      },
    },
    {
      kind: 'server process killed',
      async strike({ lostData }) {
        if ((await server.connections()) === 0) return;
        const keptUntil = nowMs() - UNFLUSHED_MS;
        await server.killBackend(() => lostData(keptUntil));
      },
    },
    {
      kind: 'older data',
      async strike({ lostData, spanMs }) {
        const savedAt = nowMs() - UNFLUSHED_MS;
        const saved = await server.save();
        await pause(spanMs / 2);
        await server.kill();
        lostData(savedAt);
        await server.putBack(saved);
      },
    },
  ];
}

function clockStep(clock: MovingClock): SiteFault {
  return {
    kind: 'clock step',
    async strike({ random }) {
      clock.move(clockStepMs(random));
    },
  };
}
