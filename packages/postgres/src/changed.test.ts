// What an operator changes while replicas run: it is named, and when it is changed back, all goes on.
import { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { TestServer, until } from '../testing/lab.js';
import { migrate, PostgresCoordinator } from './index.js';

const LEASE_MS = 1800;

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start({ config: ['max_connections = 100'] });
});
afterAll(() => server[Symbol.asyncDispose]());

interface Place {
  readonly database: string;
  readonly role: string;
}

interface Change {
  readonly what: string;
  readonly make: (place: Place) => Promise<unknown>;
  /** Part of the message; undefined where replicas do not notice. */
  readonly says?: RegExp;
  readonly undo?: (place: Place) => Promise<unknown>;
}

const CHANGES: readonly Change[] = [
  {
    what: 'a right is revoked',
    make: ({ database, role }) => within(database, `revoke all on botmesh.mesh from ${role}`),
    says: /42501: the user lacks a right.*permission denied for table mesh/,
    undo: ({ database, role }) => migrate({ url: server.url(database), role }),
  },
  {
    what: 'the schema is dropped',
    make: ({ database }) => within(database, 'drop schema botmesh cascade'),
    says: /(?:3F000|42883): what the package needs in its schema is gone/,
    undo: ({ database, role }) => migrate({ url: server.url(database), role }),
  },
  {
    what: 'the role may not log in any more',
    make: async ({ role }) => {
      await server.ask(`alter role ${role} nologin`);
      await endSessions(role);
    },
    says: /28000: it refuses the user or password/,
    undo: ({ role }) => server.ask(`alter role ${role} login`),
  },
  {
    what: 'the database is renamed',
    make: async ({ database, role }) => {
      await server.ask(`alter database ${database} allow_connections false`);
      await endSessions(role);
      await until('nobody is there', async () => {
        await server.ask(`alter database ${database} rename to ${database}_other`);
        return true;
      });
    },
    says: /3D000: there is no database of that name/,
    undo: async ({ database }) => {
      await server.ask(`alter database ${database}_other rename to ${database}`);
      await server.ask(`alter database ${database} allow_connections true`);
    },
  },
  {
    what: 'the role becomes read-only',
    make: (place) => setFor(place, 'default_transaction_read_only', 'on'),
    says: /25006: it takes no writes.*default_transaction_read_only/,
    undo: (place) => setFor(place, 'default_transaction_read_only', 'off'),
  },
  {
    what: 'statement_timeout becomes a millisecond',
    make: async ({ database, role }) => {
      // A step that takes longer than that on any machine.
      const us = '(extract(epoch from clock_timestamp()) * 1000000)::bigint';
      await within(
        database,
        `create or replace function botmesh.now_us() returns bigint language plpgsql volatile as
           $$ begin perform pg_sleep(0.01); return ${us}; end $$`,
      );
      await setFor({ database, role }, 'statement_timeout', '1');
    },
    says: /57014: the statement took too long/,
    undo: (place) => setFor(place, 'statement_timeout', '0'),
  },
  {
    what: 'transactions become serializable',
    make: (place) => setFor(place, 'default_transaction_isolation', 'serializable'),
  },
  { what: 'idle sessions are ended after 100 ms', make: (place) => setFor(place, 'idle_session_timeout', '100') },
  {
    what: 'idle transactions are ended after 10 ms',
    make: (place) => setFor(place, 'idle_in_transaction_session_timeout', '10'),
  },
  {
    what: 'all tables are published',
    make: ({ database }) => within(database, 'create publication everything for all tables'),
  },
];

test.concurrent.each(CHANGES.map((change, at) => ({ ...change, at })))(
  'while replicas run, $what',
  { timeout: 60_000 },
  async ({ at, make, says, undo }) => {
    const place = { database: `changed_${at}`, role: `bot_${at}` };
    await server.ask(`create role ${place.role} login`);
    await server.ask(`create database ${place.database}`);
    await migrate({ url: server.url(place.database), role: place.role });
    const replica = new PostgresCoordinator({ url: server.url(place.database, place.role), leaseMs: LEASE_MS });
    const told: string[] = [];
    replica.on('unavailable', ({ error }) => told.push(error.message));
    await replica.start();
    await takeTurn(replica);

    await make(place);
    if (says !== undefined) {
      await until('replicas say so', async () => {
        await takeTurn(replica).catch((error: Error) => told.push(error.message));
        return told.some((text) => says.test(text));
      });
    }
    await undo?.(place);

    await until('turns are granted', async () => {
      await takeTurn(replica);
      return true;
    });
    await replica.stop();
    if (says === undefined) expect(told).toEqual([]);
  },
);

test.concurrent('an older copy of the database that takes its place is noticed, and nothing is granted until every old trust is over', {
  timeout: 60_000,
}, async () => {
  await server.ask('create role copied login');
  await server.ask('create database copied');
  await migrate({ url: server.url('copied'), role: 'copied' });
  const replica = new PostgresCoordinator({ url: server.url('copied', 'copied'), leaseMs: LEASE_MS });
  let quarantines = 0;
  replica.on('quarantine', () => (quarantines += 1));
  await replica.start();
  await takeTurn(replica);
  const before = quarantines;

  await whileClosed('copied', () => server.ask('create database copied_then template copied'));
  await until('turns are granted', () => takeTurn(replica).then(() => true));
  expect(quarantines).toBe(before);
  await whileClosed('copied', async () => {
    await server.ask('alter database copied rename to copied_before');
    await server.ask('alter database copied_then rename to copied');
  });
  await until('turns are granted', () => takeTurn(replica).then(() => true));

  expect(quarantines).toBeGreaterThan(before);
  await replica.stop();
});

/** Who copies or renames a database must be alone. */
async function whileClosed(database: string, act: () => Promise<unknown>): Promise<void> {
  await server.ask(`alter database ${database} allow_connections false`);
  await endSessions(database);
  await until('nobody is there', () => act().then(() => true));
  await server.ask(`alter database ${database} allow_connections true`);
}

async function takeTurn(replica: PostgresCoordinator): Promise<void> {
  const turn = await replica.acquireTurn(await replica.reserve('chat'), { timeoutMs: 2 * LEASE_MS });
  await turn.release();
}

async function within(database: string, text: string): Promise<void> {
  const one = new Client({ connectionString: server.url(database) });
  await one.connect();
  try {
    await one.query(text);
  } finally {
    await one.end();
  }
}

/** For the sessions that come, and so for all: those there are, end. */
async function setFor({ database, role }: Place, name: string, value: string): Promise<void> {
  await server.ask(`alter role ${role} in database ${database} set ${name} = '${value}'`);
  await endSessions(role);
}

async function endSessions(role: string): Promise<void> {
  await server.ask('select pg_terminate_backend(pid) from pg_stat_activity where usename = $1', [role]);
}
