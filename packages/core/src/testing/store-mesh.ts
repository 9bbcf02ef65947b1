import { StoreCoordinator } from '../coordination/StoreCoordinator.js';
import type { Store } from '../coordination/store.js';
import { type Clock, systemClock } from '../time/clock.js';
import type { ConformanceMesh, TestServer } from './conformance.js';
import { labMesh } from './lab-mesh.js';
import { Rig } from './Rig.js';

export interface StoreMeshOptions {
  /** A store for one replica and shard, with connections of its own, on the data of this mesh. */
  createStore(shard: number): Store | Promise<Store>;
  /** Default: the real clock. A virtual one fits only stores that wait for no real input or output, or hold it meanwhile. */
  clock?: Clock;
  /** Default 600 ms on the real clock's account: tests wait for several leases. */
  leaseMs?: number;
  shards?: number;
  /** How late things may be: see `ConformanceMesh.slackMs`. */
  slackMs?: number;
  server?: TestServer;
  /** Called last, when every store was closed. */
  close?(): void | Promise<void>;
}

/** A ConformanceMesh of any store: the engine on faulty links. */
export function storeMesh(options: StoreMeshOptions): ConformanceMesh {
  const { clock = systemClock, leaseMs = 600, shards = 1 } = options;
  const opened: Store[] = [];
  const open = async (): Promise<Store[]> => {
    const stores: Store[] = [];
    for (let shard = 0; shard < shards; shard++) stores.push(await options.createStore(shard));
    opened.push(...stores);
    return stores;
  };
  let observers: Promise<Store[]> | undefined;

  return labMesh({
    clock,
    leaseMs,
    slackMs: options.slackMs,
    server: options.server ?? {},
    async connect(wanted) {
      const rig = new Rig(await open(), { clock });
      return { rig, coordinator: new StoreCoordinator({ leaseMs, ...wanted, clock: rig.clock, stores: rig.links }) };
    },
    async inspect() {
      observers ??= open();
      return Promise.all((await observers).map((store) => store.inspect()));
    },
    async close() {
      await Promise.allSettled(opened.map((store) => store.close()));
      await options.close?.();
    },
  });
}
