import { ConfigError, LifecycleError } from '../errors.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { type CoordinatorOptions, whole } from './options.js';
import { StoreCoordinator } from './StoreCoordinator.js';

/** Options of a {@link MemoryCoordinator}. Time comes from the mesh. */
export interface MemoryCoordinatorOptions extends Omit<CoordinatorOptions, 'clock'> {
  /** Coordinators that are given the same mesh are its replicas. Without one, this replica is alone. */
  mesh?: MemoryMesh;
  /** How many of the mesh's shards to use. All replicas must use the same number: all of them, unless you test that. */
  shards?: number;
}

/**
 * The whole contract in one process's memory: for tests, and for a bot that runs alone. Keeps nothing when the process
 * ends, and knows nothing of other processes.
 */
export class MemoryCoordinator extends StoreCoordinator {
  readonly mesh: MemoryMesh;
  #isCrashed = false;

  constructor(options: MemoryCoordinatorOptions = {}) {
    const mesh = options.mesh ?? new MemoryMesh();
    if (!(mesh instanceof MemoryMesh)) throw new ConfigError('mesh is not a MemoryMesh.');
    const shards = whole('shards', options.shards ?? mesh.shards, 1, mesh.shards);
    const seat = mesh.connect();
    super({ ...options, clock: seat.clock, stores: seat.links.slice(0, shards) });
    this.mesh = mesh;
    mesh.bind(this, seat);
  }

  override start(): Promise<void> {
    if (!this.#isCrashed) return super.start();
    return Promise.reject(
      new LifecycleError('stopped', 'This coordinator crashed: make a new one, as a new process would.'),
    );
  }

  /**
   * Simulates this replica dying without cleaning up. It counts as dead at once: its tickets are skipped, its turns and
   * leaderships handed over, its unfinished messages adopted; every signal it holds aborts with `expired`.
   */
  crash(): void {
    if (this.#isCrashed) return;
    this.#isCrashed = true;
    this.die();
    this.mesh.crash(this);
  }
}
