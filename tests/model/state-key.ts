import type { ApplyRequest, BeatRequest } from '@botmesh/core/spi';
import type { MeshState } from './mesh-state.js';
import { type Client, type Flight, LEASE_TICKS, TICK_MS, TRUST_TICKS } from './model-client.js';

const START_MS = 1_000_000;
/** Ticks for which a quarantine must be watched, rounded up. */
const QUARANTINE_TICKS = 5;

/**
 * What the future of a state depends on, as text: stamps by their order only, times by their distance from now and no
 * further than it matters, numbers of batches and heartbeats by their distance from the client's own.
 */
/** A push that its client would act on. */
export function isNews({ epoch, places, pushed }: Client): boolean {
  if (pushed === undefined || pushed.epoch !== epoch) return false;
  const place = places.find(({ seq }) => seq === pushed.seq);
  return place !== undefined && !place.isEnding && place.fence < pushed.fence;
}

export function keyOf(state: MeshState): string {
  const stamps = new Set<number>();
  const parts: (string | number)[] = [];
  const stamp = (value: number): void => {
    stamps.add(value);
    parts.push(`#${value}`);
  };
  // What only a server change makes matter is left out where none was and none will be.
  const mayChange = state.run > 0 || state.left.changes > 0;
  const isQuarantined = mayChange || state.record.quarantineMs !== 0;
  const nowMs = START_MS + (state.now + state.ahead) * TICK_MS;
  describeRecord(state, state.record, nowMs, parts, stamp);
  if (state.copy !== undefined) describeRecord(state, state.copy, nowMs, parts, stamp);
  parts.push(state.copy === undefined ? '-' : 'copy');
  for (const client of state.clients) describeClient(client, state.now, { mayChange, isQuarantined }, parts, stamp);
  for (const key of Object.keys(state.last).sort()) {
    stamp(state.last[key]?.fence ?? 0);
    stamp(state.last[key]?.seq ?? 0);
  }
  const { reserves, crashes, pauses, starts, losses, changes, steps } = state.left;
  parts.push('left', state.now, ...reserves, crashes, pauses, starts, losses, changes, steps);
  const order = new Map([...stamps].sort((a, b) => a - b).map((value, at) => [`#${value}`, at]));
  let text = state.wrong ?? '';
  for (const part of parts) text += `${typeof part === 'string' ? (order.get(part) ?? part) : part},`;
  return text;
}

type Stamp = (value: number) => void;

function describeRecord(
  state: MeshState,
  record: MeshState['record'],
  nowMs: number,
  parts: (string | number)[],
  stamp: Stamp,
): void {
  // The next stamp is the greatest of all, unless the counter is ahead of the clock, or behind what clients have seen.
  const clock = nowMs * 1000;
  parts.push(record.run === `run ${state.run}` ? 'r' : 'R', record.quarantineMs === 0 ? 'g' : 'q');
  if (state.run > 0 || state.left.changes > 0) {
    stamp(record.last);
    stamp(record.era);
  }
  parts.push(record.last >= clock ? Math.ceil((record.last - clock) / (TICK_MS * 1000)) : -1);
  for (const row of record.live.values()) {
    const client = state.clients.find((each) => each.instance === row.instance);
    stamp(row.epoch);
    parts.push(row.instance, age(nowMs - row.beat, LEASE_TICKS + 1), age(nowMs - row.since, LEASE_TICKS));
    parts.push(row.replaced ? 'x' : 'o');
    if (client === undefined) continue;
    parts.push(client.beats - row.beatNumber, client.batch - row.batch);
    if (client.flight?.kind === 'apply' && row.reply?.kind === 'applied' && row.batch === client.batch) {
      for (const taken of row.reply.results) if (taken !== null) parts.push(taken.seq === 0 ? 0 : `#${taken.seq}`);
      for (const taken of row.reply.results) if (taken !== null) stamp(taken.fence);
      for (const grant of row.reply.news.grants) stamp(grant.fence);
    }
  }
  for (const [key, queue] of record.queues) {
    parts.push(key);
    for (const { seq, owner, fence, era, batch } of queue) {
      stamp(seq);
      stamp(owner);
      stamp(fence);
      parts.push(era === record.era ? 'c' : 'f');
      const client = state.clients.find((each) => each.epoch === owner);
      parts.push(client !== undefined && batch > client.answered ? 'n' : 'a');
    }
  }
  parts.push('|');
}

interface Matters {
  readonly mayChange: boolean;
  readonly isQuarantined: boolean;
}

function describeClient(
  client: Client,
  now: number,
  { mayChange, isQuarantined }: Matters,
  parts: (string | number)[],
  stamp: Stamp,
): void {
  parts.push(client.instance, client.phase, client.isPaused ? 'P' : 'R');
  if (client.phase === 'off') return;
  stamp(client.epoch);
  stamp(client.firstEpoch);
  if (mayChange) {
    stamp(client.era);
    stamp(client.seen);
  }
  if (isQuarantined) parts.push(Math.min(now - client.eraSince, QUARANTINE_TICKS));
  parts.push(client.trustedFrom === undefined ? 'u' : Math.min(now - client.trustedFrom, TRUST_TICKS + 2));
  parts.push(client.batch - client.answered);
  for (const { key, seq, fence, isEnding } of client.places) {
    parts.push(key, isEnding ? 'e' : 'w');
    stamp(seq);
    stamp(fence);
  }
  if (client.pushed !== undefined && isNews(client)) {
    parts.push('p');
    stamp(client.pushed.seq);
    stamp(client.pushed.fence);
    stamp(client.pushed.era);
    stamp(client.pushed.epoch);
  }
  if (client.flight !== undefined) describeFlight(client, client.flight, now, mayChange, parts, stamp);
  parts.push('/');
}

function describeFlight(
  client: Client,
  flight: Flight,
  now: number,
  mayChange: boolean,
  parts: (string | number)[],
  stamp: Stamp,
): void {
  parts.push(flight.kind, Math.min(now - flight.sentAt, TRUST_TICKS));
  if (flight.kind === 'beat') {
    const { beat, era, watchedMs, answered, view, seen } = flight.request as BeatRequest;
    parts.push(client.beats - beat, client.answered - answered);
    if (mayChange) {
      parts.push(Math.min(watchedMs / TICK_MS, QUARANTINE_TICKS));
      stamp(era);
      stamp(seen);
    }
    for (const { seq, fence } of view) {
      stamp(seq);
      stamp(fence);
    }
  } else {
    for (const op of (flight.request as ApplyRequest).ops) {
      parts.push(op.op, op.key);
      if (op.op === 'release') stamp(op.seq);
    }
  }
  const { answer } = flight;
  if (answer === undefined) return;
  parts.push('>', answer.kind);
  if (answer.kind === 'alive' || answer.kind === 'applied') {
    if (mayChange) stamp(answer.era);
    for (const grant of answer.news.grants) {
      stamp(grant.seq);
      stamp(grant.fence);
    }
  }
  if (answer.kind === 'alive') for (const grant of answer.lost) stamp(grant.seq);
  if (answer.kind === 'applied') {
    for (const taken of answer.results) {
      if (taken === null) continue;
      stamp(taken.seq);
      stamp(taken.fence);
    }
  }
}

function age(ms: number, ticks: number): number {
  return Math.min(ms / TICK_MS, ticks);
}
