import { ConfigError, checkOptionNames } from '../errors.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { type CoordinatorOptions, OPTION_NAMES } from './options.js';
import { crashed } from './refusals.js';
import { StoreCoordinator } from './StoreCoordinator.js';

/** Options of a {@link MemoryCoordinator}. Time comes from the mesh. */
export interface MemoryCoordinatorOptions extends Omit<CoordinatorOptions, 'clock'> {
  /** Coordinators that are given the same mesh are its replicas. Without one, this replica is alone. */
  mesh?: MemoryMesh;
  /** How many of the mesh's shards to use. All replicas must use the same number: all of them, unless you test that. */
  shards?: number;
}

const { clock: _ofTheMesh, ...NAMES } = { ...OPTION_NAMES, mesh: true as const, shards: true as const };

/**
 * The whole contract in one process's memory: for tests, and for a bot that runs alone. Keeps nothing when the process
 * ends, and knows nothing of other processes.
 */
export class MemoryCoordinator extends StoreCoordinator {
  readonly mesh: MemoryMesh;
  #isCrashed = false;

  constructor(options: MemoryCoordinatorOptions = {}) {
    checkOptionNames('MemoryCoordinator', options, NAMES);
    const mesh = options.mesh ?? new MemoryMesh();
    if (!(mesh instanceof MemoryMesh)) throw new ConfigError('mesh is not a MemoryMesh.');
    const shards = shardsOf(mesh, options.shards);
    const seat = mesh.connect();
    super({ ...options, clock: seat.clock, stores: seat.links.slice(0, shards) });
    this.mesh = mesh;
    mesh.bind(this, seat);
  }

  override start(): Promise<void> {
    if (!this.#isCrashed) return super.start();
    return Promise.reject(crashed());
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

function shardsOf(mesh: MemoryMesh, wanted: number = mesh.shards): number {
  if (Number.isSafeInteger(wanted) && wanted >= 1 && wanted <= mesh.shards) return wanted;
  const given = typeof wanted === 'number' ? wanted : typeof wanted;
  throw new ConfigError(
    `shards is ${given}, and the mesh has ${mesh.shards}: the mesh decides. Make it with new MemoryMesh({ shards }).`,
  );
}
