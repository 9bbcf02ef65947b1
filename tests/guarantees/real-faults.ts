import type { Failure } from './report.js';

/** A run of whole replicas, in processes, on a real server or file, with real faults. */
export interface RealFault {
  readonly backend: string;
  readonly file: string;
  readonly title: string;
  /** Where several files share the test: the file that has it, and its title there. */
  readonly shared?: { readonly file: string; readonly title: string };
  readonly failures: readonly Failure[];
  /** The promises that are judged by what the replicas noted. */
  readonly promises: readonly number[];
}

/** What checkHistory judges: order, fences, exclusion, lapses, stale writes, ids, messages that were lost or overtaken. */
const HISTORY = [1, 2, 3, 4, 10, 11, 20, 21, 22] as const;

const LAB_TITLE = 'of three: harmed in every way, replicas keep every promise';

/** What the fault lab does on one backend: two of three seeds in a row show both kinds of harm to the server. */
const lab = (backend: string, name: string, failures: readonly Failure[]): RealFault => ({
  backend,
  file: `packages/lab/src/backends/${name}.test.ts`,
  title: `seed 1 ${LAB_TITLE}`,
  shared: { file: 'packages/lab/testing/expect-kept.ts', title: `seed %i ${LAB_TITLE}` },
  failures,
  promises: HISTORY,
});

const REDIS = 'packages/redis/src/faults.test.ts';
const POSTGRES = 'packages/postgres/src/faults.test.ts';
const POSTGRES_SERVER = 'packages/postgres/src/server-faults.test.ts';
const POSTGRES_FAILOVER = 'packages/postgres/src/failover.test.ts';
const NATS = 'packages/nats/src/faults.test.ts';
const SQLITE = 'packages/sqlite/src/faults.test.ts';
const SQLITE_PROCESSES = 'packages/sqlite/src/processes.test.ts';

export const REAL_FAULTS: readonly RealFault[] = [
  lab('redis', 'redis', ['killed', 'frozen', 'cut', 'requests', 'restart']),
  lab('redis', 'redis-sentinel', ['killed', 'frozen', 'cut', 'requests', 'restart']),
  lab('redis', 'redis-cluster', ['killed', 'frozen', 'cut', 'requests', 'restart']),
  {
    backend: 'redis',
    file: REDIS,
    title: 'a server that is killed, and keeps its data, loses nothing',
    failures: ['restart'],
    promises: [...HISTORY, 27],
  },
  {
    backend: 'redis',
    file: REDIS,
    title: 'a server that loses its data, wholly or in part, never makes two holders',
    failures: ['data', 'restart'],
    promises: [1, 4, 27],
  },
  {
    backend: 'redis',
    file: REDIS,
    title: 'a failover by Sentinels, away from a frozen primary that wakes again, keeps every promise',
    failures: ['restart', 'data'],
    promises: [1, 4, 27],
  },
  {
    backend: 'redis',
    file: REDIS,
    title: 'a failover in a Cluster keeps every promise in every shard',
    failures: ['restart', 'data'],
    promises: [1, 4, 27],
  },
  lab('postgres', 'postgres', ['killed', 'frozen', 'cut', 'requests', 'restart']),
  lab('postgres', 'postgres-standby', ['killed', 'frozen', 'cut', 'requests', 'restart']),
  {
    backend: 'postgres',
    file: POSTGRES,
    title: 'connections that are ended all the time, at any point of a step, cost no promise',
    failures: ['requests'],
    promises: HISTORY,
  },
  {
    backend: 'postgres',
    file: POSTGRES_SERVER,
    title: 'a server that is restarted in order loses nothing, and begins a new era',
    failures: ['restart'],
    promises: [...HISTORY, 27],
  },
  {
    backend: 'postgres',
    file: POSTGRES_SERVER,
    title: 'a server that crashes loses nothing where each step waits for its disk',
    failures: ['restart'],
    promises: [...HISTORY, 27],
  },
  {
    backend: 'postgres',
    file: POSTGRES_SERVER,
    title: 'a server that crashes and loses its last moments tells who lost what',
    failures: ['data', 'restart'],
    promises: [1, 4, 27],
  },
  {
    backend: 'postgres',
    file: POSTGRES_SERVER,
    title: 'files that were copied while the server was stopped, and are put back later, make no two holders',
    failures: ['data', 'restart'],
    promises: [1, 4, 27],
  },
  {
    backend: 'postgres',
    file: POSTGRES_FAILOVER,
    title: 'a standby that is promoted without the last moments tells who lost what',
    failures: ['data', 'restart'],
    promises: [1, 4, 27],
  },
  {
    backend: 'nats',
    file: NATS,
    title: 'replicas that are killed, frozen, cut off and slowed keep every promise',
    failures: ['killed', 'frozen', 'cut', 'requests'],
    promises: HISTORY,
  },
  {
    backend: 'nats',
    file: NATS,
    title: 'a server that is killed, and keeps its data, loses nothing',
    failures: ['restart'],
    promises: [...HISTORY, 27],
  },
  {
    backend: 'nats',
    file: NATS,
    title: 'a server that loses its data, wholly or in part, never makes two holders',
    failures: ['data', 'restart'],
    promises: [1, 4, 27],
  },
  {
    backend: 'nats',
    file: NATS,
    title: 'a cluster whose leaders step down, are killed and come back keeps every promise',
    failures: ['restart'],
    promises: HISTORY,
  },
  lab('sqlite', 'sqlite', ['killed', 'frozen', 'requests']),
  {
    backend: 'sqlite',
    file: SQLITE_PROCESSES,
    title: 'a process that waits is granted a key as soon as its holder was killed, long before the lease is over',
    failures: ['killed'],
    promises: [8],
  },
  {
    backend: 'sqlite',
    file: SQLITE_PROCESSES,
    title: 'the message of a process that was killed in the middle is handled by another',
    failures: ['killed'],
    promises: [20],
  },
  {
    backend: 'sqlite',
    file: SQLITE_PROCESSES,
    title: 'a frozen holder is passed over within the lease, and knows it when it wakes',
    failures: ['frozen'],
    promises: [8, 10],
  },
  {
    backend: 'sqlite',
    file: SQLITE,
    title: 'what a power cut left is put back under processes at work, twice',
    failures: ['data'],
    promises: [1, 4, 27],
  },
  {
    backend: 'sqlite',
    file: SQLITE,
    title: 'the file is replaced while its holder is frozen',
    failures: ['data', 'frozen'],
    promises: [1, 4, 27],
  },
];
