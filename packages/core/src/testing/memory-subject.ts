import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { systemClock } from '../time/clock.js';
import type { ConformanceMesh, ConformanceSubject } from './conformance.js';
import { labMesh } from './lab-mesh.js';
import { MemoryMesh } from './MemoryMesh.js';
import { VirtualClock } from './VirtualClock.js';

export interface MemorySubjectOptions {
  /** Whether to run on the real clock. Default: a virtual one. */
  realTime?: boolean;
  leaseMs?: number;
}

/** The memory coordinator as a subject of the suites: what every other backend is compared with. */
export function memorySubject(options: MemorySubjectOptions = {}): ConformanceSubject {
  const { realTime = false } = options;
  return {
    name: realTime ? 'memory in real time' : 'memory',
    faults: ['stepClock', 'wipe', 'restart', 'rollback'],
    open: async ({ shards = 1, leaseMs = options.leaseMs ?? 12_000 } = {}) => openMesh(realTime, shards, leaseMs),
  };
}

function openMesh(realTime: boolean, shards: number, leaseMs: number): ConformanceMesh {
  const mesh = new MemoryMesh({ clock: realTime ? systemClock : new VirtualClock(), shards });
  return labMesh({
    clock: mesh.clock,
    leaseMs,
    async connect(wanted) {
      const coordinator = new MemoryCoordinator({ leaseMs, ...wanted, mesh });
      return { coordinator, rig: mesh.rigOf(coordinator) };
    },
    inspect: () => mesh.inspect(),
    server: {
      stepClock: (ms) => mesh.stepClock(ms),
      wipe: () => mesh.wipe(),
      restart: () => mesh.restart(),
      snapshot: () => {
        const snapshot = mesh.snapshot();
        return () => mesh.rollback(snapshot);
      },
    },
    close: async () => {},
  });
}
