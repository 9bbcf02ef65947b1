// For the tests of this package: a mesh on files, each replica's stores in a process of its own.
import type { Open } from './driver.js';
import { copyNow, makeFolder, removeDatabase } from './lab.test-support.js';
import { RemoteStore, StoreProcess } from './remote.test-support.js';
import type { HostTime } from './SqliteStore.js';
import { Traffic } from './traffic.test-support.js';

/** More replicas than this share processes: each takes some 50 MB. */
const MOST_PROCESSES = 8;

/** Processes for all tests of a file. To fork for each test would take longer than the test. */
export class ProcessPool {
  readonly #processes: StoreProcess[] = [];

  /** The `index`th, begun when it is first asked for. */
  at(index: number): StoreProcess {
    const at = index % MOST_PROCESSES;
    this.#processes[at] ??= new StoreProcess();
    return this.#processes[at];
  }

  /** Resolves when `count` of them run, with the library that each one uses. */
  drivers(count: number): Promise<string[]> {
    return Promise.all(Array.from({ length: count }, (_, index) => this.at(index).driver));
  }

  async end(): Promise<void> {
    await Promise.all(this.#processes.map((process) => process.end()));
  }
}

export interface FileMeshOptions {
  readonly pool: ProcessPool;
  /** Which process the first replica has. The others have the ones after it. */
  readonly first?: number;
  readonly shards: number;
  /** Holds the clock while something is on its way. Default: the clock is real. */
  readonly hold?: () => () => void;
  readonly time?: () => HostTime;
  /** See `RemoteStoreOptions`. */
  readonly looks?: boolean;
  /** For copies of the files. */
  readonly open: Open;
}

/** What storeMesh() needs: stores in other processes, and what can happen to their files. */
export function fileMesh({ pool, first = 0, shards, hold = () => () => {}, time, looks, open }: FileMeshOptions) {
  const folder = makeFolder();
  const files = Array.from({ length: shards }, (_, shard) => (shard === 0 ? folder.file : `${folder.file}-${shard}`));
  const traffic = new Traffic(hold);
  const opened = files.map(() => 0);
  return {
    createStore(shard: number): RemoteStore {
      const nth = opened[shard]!;
      opened[shard] = nth + 1;
      return new RemoteStore({ process: pool.at(first + nth), path: files[shard]!, time, traffic, looks });
    },
    server: {
      wipe: async () => {
        await traffic.quiet();
        files.forEach(removeDatabase);
      },
      restart: async () => {
        await traffic.quiet();
        for (const file of files) copyNow(file, open)();
      },
      snapshot: async () => {
        await traffic.quiet();
        const putBack = files.map((file) => copyNow(file, open));
        return async () => {
          await traffic.quiet();
          for (const each of putBack) each();
        };
      },
    },
    /** Resolves when every push sent so far was heard. */
    arrived: () => traffic.quiet(),
    path: folder.file,
    close: () => {
      folder.remove();
      if (traffic.lost.length > 0) throw new Error(`Pushes were lost, to ${traffic.lost.join(', ')}.`);
    },
  };
}
