import { MemoryCoordinator, MemoryMesh, VirtualClock } from '@botmesh/core/testing';
import { collectGarbage } from '../lib/gc.js';

const LEASE_MS = 12_000;
const BEAT_MS = LEASE_MS / 6;

/** The share of one core that heartbeats take while a replica holds `turns` turns, the store's part included. */
export async function heartbeatShare(turns: number, beats: number): Promise<number> {
  const clock = new VirtualClock();
  const coordinator = new MemoryCoordinator({
    mesh: new MemoryMesh({ clock }),
    leaseMs: LEASE_MS,
    heldWarnMs: 86_400_000,
  });
  await coordinator.start();
  const tickets = await Promise.all(Array.from({ length: turns }, (_, at) => coordinator.reserve(`chat-${at}`)));
  const held = await Promise.all(tickets.map((ticket) => coordinator.acquireTurn(ticket)));
  for (let warm = 0; warm < 10; warm++) await clock.advance(BEAT_MS);

  collectGarbage();
  const cpu = process.cpuUsage();
  for (let beat = 0; beat < beats; beat++) await clock.advance(BEAT_MS);
  const { user, system } = process.cpuUsage(cpu);

  // Had a single one been lost, what was measured is not what was meant.
  for (const turn of held) turn.assertHeld();
  await coordinator.stop();
  return (user + system) / 1000 / (beats * BEAT_MS);
}
