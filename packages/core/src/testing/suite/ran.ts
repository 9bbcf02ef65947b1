import type { ConformanceMesh, TestReplica, TestServer } from '../conformance.js';

/** The kinds of failures that a test can bring about. */
export type Failure = 'killed' | 'frozen' | 'cut' | 'restart' | 'data' | 'clock' | 'requests' | 'pushes';

/** What one test of a suite did to the mesh while it ran. */
export interface Ran {
  readonly title: string;
  readonly promise: number;
  readonly subject: string;
  readonly failures: readonly Failure[];
}

const OF_REPLICAS: Partial<Record<keyof TestReplica, Failure>> = {
  crash: 'killed',
  freeze: 'frozen',
  suspend: 'frozen',
  cut: 'cut',
  delay: 'requests',
  loseAnswers: 'requests',
  repeatRequests: 'requests',
  dropPushes: 'pushes',
  stepWall: 'clock',
};

const OF_SERVERS: Partial<Record<keyof TestServer, Failure>> = {
  stepClock: 'clock',
  wipe: 'data',
  restart: 'restart',
  snapshot: 'data',
};

const listeners = new Set<(ran: Ran) => void>();

/** Hears of every test of a suite that ended, well or not, until the returned function is called. */
export function onRan(listener: (ran: Ran) => void): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

export function tellRan(ran: Ran): void {
  for (const listener of listeners) listener(ran);
}

/** `mesh`, noting in `failures` what is done to it. */
export function watched(mesh: ConformanceMesh, failures: Set<Failure>): ConformanceMesh {
  return seen(mesh, (name, value) => {
    if (name === 'server') return noting(value as TestServer, OF_SERVERS, failures);
    if (name !== 'replica') return value;
    const replica = value as ConformanceMesh['replica'];
    return async (...args: Parameters<typeof replica>) => noting(await replica(...args), OF_REPLICAS, failures);
  });
}

function noting<T extends object>(target: T, kinds: Partial<Record<keyof T, Failure>>, failures: Set<Failure>): T {
  return seen(target, (name, value) => {
    const kind = kinds[name];
    if (kind === undefined || typeof value !== 'function') return value;
    return (...args: unknown[]) => {
      failures.add(args[0] === 'pushes' ? 'pushes' : kind);
      return value(...args) as unknown;
    };
  });
}

/** `target`, each of its members as `look` makes it. */
function seen<T extends object>(target: T, look: (name: keyof T, value: unknown) => unknown): T {
  return new Proxy(target, {
    get(_target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      return look(name as keyof T, typeof value === 'function' ? value.bind(target) : value);
    },
  });
}
