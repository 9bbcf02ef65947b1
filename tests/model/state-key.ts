import type { ApplyRequest, BeatRequest } from '@botmesh/core/spi';
import type { MeshState } from './mesh-state.js';
import { type Client, type Flight, LEASE_TICKS, TICK_MS, TRUST_TICKS } from './model-client.js';

const START_MS = 1_000_000;
/** Ticks for which a quarantine must be watched, rounded up. */
const QUARANTINE_TICKS = 5;

/** A push that its client would act on. */
export function isNews({ epoch, places, pushed }: Client): boolean {
  if (pushed === undefined || pushed.epoch !== epoch) return false;
  const place = places.find(({ seq }) => seq === pushed.seq);
  return place !== undefined && !place.isEnding && place.fence < pushed.fence;
}

/**
 * What the future of a state depends on, as text: stamps by their order only, times by their distance from now and no
 * further than it matters, numbers of batches and heartbeats by their distance from the client's own.
 */
export function keyOf(state: MeshState): string {
  const text = new KeyText();
  // What only a server change makes matter is left out where none was and none will be.
  const mayChange = state.run > 0 || state.left.changes > 0;
  const isQuarantined = mayChange || state.record.quarantineMs !== 0;
  const nowMs = START_MS + (state.now + state.ahead) * TICK_MS;
  describeRecord(state, state.record, nowMs, text);
  if (state.copy !== undefined) describeRecord(state, state.copy, nowMs, text);
  text.push(state.copy === undefined ? '-' : 'copy');
  for (const client of state.clients) describeClient(client, state.now, { mayChange, isQuarantined }, text);
  for (const key of Object.keys(state.last).sort()) {
    text.stamp(state.last[key]?.fence ?? 0);
    text.stamp(state.last[key]?.seq ?? 0);
  }
  const { reserves, crashes, pauses, starts, losses, changes, steps } = state.left;
  text.push('left', state.now, ...reserves, crashes, pauses, starts, losses, changes, steps);
  return (state.wrong ?? '') + text.end();
}

/** A row of things, of which stamps count by their order only, and eras by which are the same. */
class KeyText {
  readonly #parts: (string | number)[] = [];
  readonly #stamps = new Set<number>();
  readonly #eras: number[] = [];

  push(...parts: (string | number)[]): void {
    this.#parts.push(...parts);
  }

  stamp(value: number): void {
    this.#stamps.add(value);
    this.#parts.push(`#${value}`);
  }

  era(value: number): void {
    if (!this.#eras.includes(value)) this.#eras.push(value);
    this.#parts.push(`e${this.#eras.indexOf(value)}`);
  }

  end(): string {
    const order = new Map([...this.#stamps].sort((a, b) => a - b).map((value, at) => [`#${value}`, at]));
    let text = '';
    for (const part of this.#parts) text += `${typeof part === 'string' ? (order.get(part) ?? part) : part},`;
    return text;
  }
}

function describeRecord(state: MeshState, record: MeshState['record'], nowMs: number, text: KeyText): void {
  // The next stamp is the greatest of all, unless the counter is ahead of the clock, or behind what clients have seen.
  const clock = nowMs * 1000;
  text.push(record.run === `run ${state.run}` ? 'r' : 'R', String(record.quarantineMs));
  if (state.run > 0 || state.left.changes > 0) {
    text.stamp(record.last);
    text.era(record.era);
  }
  text.push(record.last >= clock ? Math.ceil((record.last - clock) / (TICK_MS * 1000)) : -1);
  for (const row of record.live.values()) {
    const client = state.clients.find((each) => each.instance === row.instance);
    text.stamp(row.epoch);
    text.stamp(row.firstEpoch);
    text.push(row.instance, age(nowMs - row.beat, LEASE_TICKS + 1), age(nowMs - row.since, LEASE_TICKS));
    text.push(row.replaced ? 'x' : 'o', row.isProven ? 'p' : 'j');
    if (client === undefined) continue;
    text.push(client.beats - row.beatNumber, client.batch - row.batch);
    if (client.flight?.kind === 'apply' && row.reply?.kind === 'applied' && row.batch === client.batch) {
      for (const taken of row.reply.results) if (taken !== null) text.push(taken.seq === 0 ? 0 : `#${taken.seq}`);
      for (const taken of row.reply.results) if (taken !== null) text.stamp(taken.fence);
      for (const grant of row.reply.news.grants) text.stamp(grant.fence);
    }
  }
  for (const [key, queue] of record.queues) {
    text.push(key);
    for (const { seq, owner, fence, era, batch } of queue) {
      text.stamp(seq);
      text.stamp(owner);
      text.stamp(fence);
      text.push(era === record.era ? 'c' : 'f');
      const client = state.clients.find((each) => each.epoch === owner);
      text.push(client !== undefined && batch > client.answered ? 'n' : 'a');
    }
  }
  text.push('|');
}

interface Matters {
  readonly mayChange: boolean;
  readonly isQuarantined: boolean;
}

function describeClient(client: Client, now: number, { mayChange, isQuarantined }: Matters, text: KeyText): void {
  text.push(client.instance, client.phase, client.isPaused ? 'P' : 'R');
  if (client.phase === 'off') return;
  text.stamp(client.epoch);
  text.stamp(client.firstEpoch);
  if (mayChange) {
    text.era(client.era);
    text.stamp(client.seen);
  }
  if (isQuarantined) text.push(Math.min(now - client.eraSince, QUARANTINE_TICKS));
  text.push(client.trustedFrom === undefined ? 'u' : Math.min(now - client.trustedFrom, TRUST_TICKS + 2));
  text.push(client.batch - client.answered);
  for (const { key, seq, fence, isEnding } of client.places) {
    text.push(key, isEnding ? 'e' : 'w');
    text.stamp(seq);
    text.stamp(fence);
  }
  if (client.pushed !== undefined && isNews(client)) {
    text.push('p');
    text.stamp(client.pushed.seq);
    text.stamp(client.pushed.fence);
    text.era(client.pushed.era);
    text.stamp(client.pushed.epoch);
  }
  if (client.flight !== undefined) describeFlight(client, client.flight, now, mayChange, text);
  text.push('/');
}

function describeFlight(client: Client, flight: Flight, now: number, mayChange: boolean, text: KeyText): void {
  text.push(flight.kind, Math.min(now - flight.sentAt, TRUST_TICKS));
  if (flight.kind === 'beat') {
    const { beat, era, watchedMs, answered, view, seen } = flight.request as BeatRequest;
    text.push(client.beats - beat, client.answered - answered);
    if (mayChange) {
      text.push(Math.min(watchedMs / TICK_MS, QUARANTINE_TICKS));
      text.era(era);
      text.stamp(seen);
    }
    for (const { seq, fence } of view) {
      text.stamp(seq);
      text.stamp(fence);
    }
  } else {
    for (const op of (flight.request as ApplyRequest).ops) {
      text.push(op.op, op.key);
      if (op.op === 'release') text.stamp(op.seq);
    }
  }
  const { answer } = flight;
  if (answer === undefined) return;
  text.push('>', answer.kind);
  if (answer.kind === 'alive' || answer.kind === 'applied') {
    if (mayChange) text.era(answer.era);
    for (const grant of answer.news.grants) {
      text.stamp(grant.seq);
      text.stamp(grant.fence);
    }
  }
  if (answer.kind === 'alive') for (const grant of answer.lost) text.stamp(grant.seq);
  if (answer.kind === 'applied') {
    for (const taken of answer.results) {
      if (taken === null) continue;
      text.stamp(taken.seq);
      text.stamp(taken.fence);
    }
  }
}

function age(ms: number, ticks: number): number {
  return Math.min(ms / TICK_MS, ticks);
}
