/** How often each thing happened over a set of runs. A set in which a needed one never did proves nothing about it. */
export type Coverage = Record<string, number>;

/** What every set of runs must have seen. The number of runs from which on it is demanded is the caller's to say. */
export const NEEDED = [
  'freeze short of the trust',
  'freeze past the trust',
  'freeze past the lease',
  'freeze past the lease while holding',
  'suspend',
  'cut requests',
  'cut answers',
  'cut pushes',
  'cut all',
  'delay',
  'crash',
  'crash while holding',
  'silent death',
  'silent death while holding',
  'start again with the same id',
  'second start with one id',
  'stop and start',
  'stop while holding',
  'server clock forward',
  'server clock back',
  'server restart',
  'wipe',
  'rollback',
  'wall clock forward',
  'wall clock back',
  ...['join', 'apply', 'beat', 'leave', 'subscribe'].flatMap((kind) => [`lost answer: ${kind}`, `repeated: ${kind}`]),
  ...['grant', 'look', 'replaced', 'ping'].map((kind) => `dropped push: ${kind}`),
  'seen: superseded',
  'seen: replaced',
  'seen: quarantine',
  'seen: unavailable',
  'seen: available',
  'seen: lost expired',
  'seen: lost superseded',
  'seen: lost replaced',
  'seen: lost stopped',
  'seen: elected',
  'seen: parked',
  'seen: ticketLeaked',
  'seen: wakeDegraded',
  'seen: late',
  'seen: adopted',
  'seen: adopted after an attempt',
  'seen: duplicate',
  'seen: timeout',
  'seen: aborted',
  'seen: handover between replicas',
  'seen: note',
  'seen: finished behind a turn',
  'seen: passed on',
  'seen: passed what waits',
  'seen: replay',
  'seen: drop',
] as const;

export function count(coverage: Coverage, name: string): void {
  coverage[name] = (coverage[name] ?? 0) + 1;
}

export function addUp(into: Coverage, more: Coverage): void {
  for (const [name, times] of Object.entries(more)) into[name] = (into[name] ?? 0) + times;
}

export function missing(coverage: Coverage): string[] {
  return NEEDED.filter((name) => (coverage[name] ?? 0) === 0);
}
