import { randomUUID } from 'node:crypto';
import { migrate, PostgresCoordinator } from '@botmesh/postgres';
import { PgTicket } from '../bounds/PgTicket.js';
import { growth } from '../growth.js';
import { ours } from '../ours.js';
import type { Backend } from '../subject.js';

const URL_OF = process.env.BOTMESH_POSTGRES_URL ?? 'postgres://postgres@127.0.0.1:5432/test';
const SCHEMA = 'botmesh_bench';

const [turns, accepted] = ours((where) => new PostgresCoordinator({ url: where.split(' ')[0]!, schema: SCHEMA }));

let ready: Promise<void> | undefined;

/** Once for all runs: after its first start the mesh waits out a quarantine. */
async function start(): Promise<void> {
  await migrate({ url: URL_OF, schema: SCHEMA });
  const coordinator = new PostgresCoordinator({ url: URL_OF, schema: SCHEMA });
  await coordinator.start();
  const leadership = await coordinator.lead('bench', { signal: AbortSignal.timeout(60_000) });
  await leadership.resign();
  await coordinator.stop();
}

/** A PostgreSQL that is there, or the one of BOTMESH_POSTGRES_URL. On this machine it takes its share of the same cores. */
export const backend: Backend = {
  name: 'postgres',
  loads: ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b', 'held', 'idle'],
  subjects: [
    {
      name: 'plain ticket',
      isOurs: false,
      loads: ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b', 'held', 'idle'],
      open: (at) => PgTicket.open(at),
    },
    turns,
    accepted,
  ],
  goals: {
    'W1h handOverP50': { on: 'ratio', atMost: 1 },
    'W2 rate': { on: 'ratio', atLeast: 1.5 },
    'held cpuShare': { on: 'value', atMost: 1 },
    'W1 share': { on: 'value', atLeast: 45 },
  },
  others: { growth: (isQuick) => growth(backend, URL_OF, SCHEMA, isQuick) },
  async prepare() {
    ready ??= start();
    await ready;
    const schema = `plain_${randomUUID().slice(0, 8)}`;
    await PgTicket.make(URL_OF, schema);
    return { where: `${URL_OF} ${schema}`, remove: () => PgTicket.drop(URL_OF, schema) };
  },
};
