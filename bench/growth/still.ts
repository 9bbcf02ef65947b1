import { MemoryCoordinator, MemoryMesh, VirtualClock } from '@botmesh/core/testing';

export const LEASE_MS = 12_000;
export const BEAT_MS = LEASE_MS / 6;

/** A mesh in which no time passes unless it is told to: what is measured has no heartbeats but those that are meant. */
export interface StillMesh {
  readonly clock: VirtualClock;
  readonly mesh: MemoryMesh;
  readonly replicas: readonly MemoryCoordinator[];
  readonly close: () => Promise<void>;
}

export async function stillMesh(count: number): Promise<StillMesh> {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const make = (): MemoryCoordinator => new MemoryCoordinator({ mesh, leaseMs: LEASE_MS, heldWarnMs: 86_400_000 });
  const replicas = Array.from({ length: count }, make);
  await Promise.all(replicas.map((replica) => replica.start()));
  // The heartbeat that each sends when it has joined.
  await clock.advance(1);
  const close = async (): Promise<void> => {
    await Promise.all(replicas.map((replica) => replica.stop()));
  };
  return { clock, mesh, replicas, close };
}
