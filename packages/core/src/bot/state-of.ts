import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import type { StateStore } from '../state/state-store.js';
import type { BotOptions, BringsState } from './options.js';

const meshStates = new WeakMap<object, StateStore>();

/** Where a Bot's state is kept: where it was told, where its coordinator says, or in this process. */
export function stateOf({ state, coordinator }: BotOptions): StateStore {
  if (state !== undefined) return state;
  if (coordinator instanceof MemoryCoordinator) return stateOfMesh(coordinator.mesh);
  return (coordinator as Partial<BringsState> | undefined)?.stateStore ?? new MemoryStateStore();
}

/** Replicas of one mesh in memory share its state, as replicas of one server do. */
function stateOfMesh(mesh: object): StateStore {
  const found = meshStates.get(mesh);
  if (found !== undefined) return found;
  const made = new MemoryStateStore();
  meshStates.set(mesh, made);
  return made;
}
