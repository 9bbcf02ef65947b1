import { cpus, loadavg } from 'node:os';

/** What the figures were measured on. */
export function machine(): { node: string; cpu: string; cores: number; load1: number } {
  const all = cpus();
  return {
    node: process.version,
    cpu: (all[0]?.model ?? 'unknown').trim(),
    cores: all.length,
    load1: Number((loadavg()[0] ?? 0).toFixed(2)),
  };
}
