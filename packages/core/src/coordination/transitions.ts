/**
 * The protocol's steps as transitions over plain data: deterministic in (record, request, time), no I/O, no timers.
 * Every backend makes these steps in its own language; the differential runner holds it to the answers given here.
 */
import { run } from './record/operations.js';
import {
  ADOPT_SHARE,
  bury,
  detach,
  headOf,
  hold,
  inPlaces,
  isGranted,
  offer,
  push,
  remove,
  settle,
  tryNextSuspect,
} from './record/queues.js';
import type { Entry, Ledger, Moment, Outgoing, Row } from './record/record.js';
import { admit, begin, configOf, isOver, noteSeen, type Step, stamp, startEra, wallOf } from './record/step.js';
import type {
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  Grant,
  JoinAnswer,
  JoinRequest,
  LeaveRequest,
  MeshConfig,
  Note,
  PaceAnswer,
  PaceRequest,
  ParkedNotice,
  Taken,
  Waiting,
  WaitingRequest,
} from './store.js';
import { timing } from './timing.js';

export {
  type Entry,
  emptyRecord,
  inspect,
  type Ledger,
  type MeshRecord,
  type Message,
  type Moment,
  type Outgoing,
  type Queue,
  type Row,
} from './record/record.js';

/** No heartbeat forgets more expired ids than this. */
const FORGET_SHARE = 4096;
/** No heartbeat brings more notes than this. */
const NOTES_SHARE = 64;
/** No look shows more messages that wait than this. */
const WAITING_SHARE = 256;
/** No slot is further ahead than this: a clock that was set back may hold nobody up for long. */
const LONGEST_PACE_MS = 3_600_000;
/** Live rows this many leases old no longer pin the configuration. */
const STALE_PIN_LEASES = 3;

export function join(record: Ledger, request: JoinRequest, moment: Moment, pushes: Outgoing[]): JoinAnswer {
  const step = begin(record, moment, pushes);
  const found = pin(step, request.config);
  if (found !== null) return { kind: 'refused', found };
  noteSeen(record, request.seen);
  const row = [...record.live.values()].find((other) => other.instance === request.instance);
  // A start whose answer was lost, and that a newer one replaced meanwhile, may not take the name back.
  if (row?.replaced) return { kind: 'replaced' };
  if (row !== undefined && request.seen < row.epoch) {
    // The caller will count its trust from this repetition, so the lease must count from it too.
    renew(step, row);
    return joined(step, row);
  }
  if (isOutdated(record, request)) return { kind: 'replaced' };
  // The caller knew this epoch and counts it as over: a rollback brought it back. Its batches would all be stale.
  if (row !== undefined) bury(step, row);
  return joined(step, addRow(step, request));
}

function joined(step: Step, row: Row): JoinAnswer {
  const { era, quarantineMs } = step.record;
  return { kind: 'joined', epoch: row.epoch, era, quarantined: quarantineMs !== 0, parked: step.parked };
}

function sameConfig(a: MeshConfig, b: MeshConfig): boolean {
  return a.format === b.format && a.leaseMs === b.leaseMs && a.shards === b.shards;
}

/** R14: a mesh in use keeps its configuration; returns it when the wanted one differs. */
function pin(step: Step, wanted: MeshConfig): MeshConfig | null {
  const { record } = step;
  const found = record.config;
  if (found !== null && !sameConfig(found, wanted)) {
    if (isPinned(step, found)) return found;
    repin(step, found, wanted);
  }
  record.config = wanted;
  if (record.quarantineMs === Number.POSITIVE_INFINITY) record.quarantineMs = timing(wanted.leaseMs).quarantineMs;
  return null;
}

function isPinned(step: Step, config: MeshConfig): boolean {
  for (const row of step.record.live.values()) {
    if (Math.abs(step.nowMs - row.beat) <= STALE_PIN_LEASES * config.leaseMs) return true;
  }
  return false;
}

/** A mesh whose replicas are long gone may be set up anew: whoever wakes up late is dead. */
function repin(step: Step, from: MeshConfig, to: MeshConfig): void {
  for (const row of [...step.record.live.values()]) bury(step, row);
  startEra(step, Math.max(from.leaseMs, to.leaseMs));
}

/** Whether a newer start than the one that joins again has its replicaId. */
function isOutdated(record: Ledger, { firstEpoch, replicaId }: JoinRequest): boolean {
  if (firstEpoch === 0) return false;
  for (const row of record.live.values()) {
    if (row.replicaId === replicaId && row.isProven && row.firstEpoch > firstEpoch) return true;
  }
  return false;
}

/** The first that is heard of an epoch after its join: now it has the name, and older starts are replaced. */
function prove(step: Step, me: Row): void {
  me.isProven = true;
  for (const row of [...step.record.live.values()]) {
    if (row.replicaId === me.replicaId && row.firstEpoch < me.firstEpoch) replace(step, row);
  }
}

/** R4: the newer start has the name from now on; what the older holds stays its own until it has surely ended. */
function replace(step: Step, row: Row): void {
  if (!row.replaced) {
    row.replaced = true;
    push(step, row, { kind: 'replaced', epoch: row.epoch });
  }
  for (const entry of [...row.tickets.values()]) {
    if (entry.fence !== 0) continue;
    if (headOf(step, entry.key) === entry) settle(step, entry.key);
  }
}

function addRow(step: Step, request: JoinRequest): Row {
  const epoch = stamp(step);
  const row: Row = {
    epoch,
    replicaId: request.replicaId,
    instance: request.instance,
    firstEpoch: request.firstEpoch === 0 ? epoch : request.firstEpoch,
    isProven: false,
    beat: step.nowMs,
    beatNumber: 0,
    since: step.nowMs,
    replaced: false,
    adopts: request.adopts,
    batch: 0,
    reply: null,
    notes: [],
    trial: null,
    tickets: new Map(),
  };
  step.record.live.set(epoch, row);
  return row;
}

export function apply(record: Ledger, request: ApplyRequest, moment: Moment, pushes: Outgoing[]): ApplyAnswer {
  const step = begin(record, moment, pushes, request.batch);
  const me = admit(step, request.epoch, request.instance);
  if (me === 'dead' || me === 'replaced') return { kind: me };
  if (!me.isProven) prove(step, me);
  // R7: the same number again gets the same answer again, an older one does nothing.
  if (request.batch === me.batch && me.reply !== null) return me.reply;
  if (request.batch <= me.batch) return { kind: 'stale' };

  const results: (Taken | null)[] = [];
  for (const op of request.ops) results.push(run(step, me, op));
  const { grants, adopted, parked } = step;
  me.batch = request.batch;
  me.reply = { kind: 'applied', era: record.era, results, news: { grants, adopted, parked } };
  return me.reply;
}

export function beat(record: Ledger, request: BeatRequest, moment: Moment, pushes: Outgoing[]): BeatAnswer {
  const step = begin(record, moment, pushes);
  const me = admit(step, request.epoch, request.instance);
  if (me === 'dead' || me === 'replaced') return { kind: me };
  // An old view would take away what came after it.
  if (request.beat <= me.beatNumber) return { kind: 'stale' };
  me.beatNumber = request.beat;
  if (!me.isProven) prove(step, me);
  noteSeen(record, request.seen);
  renew(step, me);
  me.adopts = request.adopts;
  if (request.era === record.era && request.watchedMs >= record.quarantineMs) record.quarantineMs = 0;
  // Asked before anything changes: what a burial grants or hands over now is news in any case.
  const isKnown = request.era === record.era && record.isAsListed?.(me.epoch, request.view) === true;
  buryTheDead(step, me);

  const lost = isKnown ? [] : compareView(step, me, request);
  const hasMore = lookAround(step, me, request.answered, !isKnown);
  hearUpTo(step, me, request.heard);
  const notes = me.notes.slice(0, NOTES_SHARE);
  forgetExpired(step);
  forgetPaces(step);
  push(step, me, { kind: 'ping', epoch: me.epoch });
  const { grants, adopted, parked } = step;
  return {
    kind: 'alive',
    era: record.era,
    quarantined: record.quarantineMs !== 0,
    news: { grants, adopted, parked },
    lost,
    notes,
    more: hasMore || notes.length < me.notes.length,
  };
}

/** Of its notes the caller keeps those that it has not heard and that are for a turn it still has. */
function hearUpTo(step: Step, me: Row, heard: number): void {
  if (me.notes.length === 0) return;
  me.notes = me.notes.filter((note) => note.at > heard && isForTurn(step, me, note));
}

/** A later grant of the same ticket is another turn. */
function isForTurn(step: Step, me: Row, { at, key, seq }: Note): boolean {
  const entry = me.tickets.get(seq);
  return entry !== undefined && headOf(step, key) === entry && entry.fence !== 0 && entry.fence < at;
}

/** R2: a gap in its own heartbeats, either way, makes a replica wait a whole lease before it may judge others again. */
function renew(step: Step, me: Row): void {
  const gap = step.nowMs - me.beat;
  if (gap < 0 || gap > timing(configOf(step).leaseMs).gapMs) me.since = step.nowMs;
  me.beat = step.nowMs;
}

function buryTheDead(step: Step, me: Row): void {
  for (const row of [...step.record.live.values()]) {
    // A clock that was set back may keep nobody alive for ever.
    if (row.beat > step.nowMs) row.beat = step.nowMs;
    if (row !== me && isOver(step, row)) bury(step, row);
  }
}

/** R10, R11: what the caller lists is confirmed, granted, or reported lost. */
function compareView(step: Step, me: Row, request: BeatRequest): Grant[] {
  const lost: Grant[] = [];
  const listed = new Set<number>();
  for (const ticket of request.view) {
    const entry = me.tickets.get(ticket.seq);
    if (entry === undefined || entry.key !== ticket.key) {
      lost.push(ticket);
      continue;
    }
    listed.add(ticket.seq);
    entry.offered = false;
    if (ticket.fence === 0) deliver(step, entry);
    else if (!confirm(step, entry, ticket)) lost.push(ticket);
  }
  // As a rule the caller knows all it has: nothing to disown.
  if (listed.size === me.tickets.size) return lost;
  for (const entry of inPlaces(me)) {
    if (listed.has(entry.seq) || entry.offered || entry.batch > request.answered) continue;
    disown(step, me, entry);
  }
  return lost;
}

/** The caller waits for this entry: tell it of a grant it missed, or grant what a server change left open. */
function deliver(step: Step, entry: Entry): void {
  if (headOf(step, entry.key) !== entry) return;
  if (!isGranted(step, entry)) settle(step, entry.key);
  else if (entry.fence <= step.stampBefore) step.grants.push({ key: entry.key, seq: entry.seq, fence: entry.fence });
}

function confirm(step: Step, entry: Entry, ticket: Grant): boolean {
  if (entry.fence !== ticket.fence || headOf(step, entry.key) !== entry) return false;
  entry.era = step.record.era;
  return true;
}

/** R12: the owner does not know this entry. A plain one goes; a message is left for whoever can handle it. */
function disown(step: Step, me: Row, entry: Entry): void {
  if (entry.message !== null) {
    detach(step, me, entry);
    return;
  }
  remove(step, me, entry);
}

/** Hands the caller what was offered and not yet listed, and messages that nobody took. True when there is more. */
function lookAround(step: Step, me: Row, answered: number, mayHaveOffers: boolean): boolean {
  const { record } = step;
  if (!me.adopts && mayHaveOffers) takeOffersBack(step, me, answered);
  if (!me.adopts || record.quarantineMs !== 0) return false;
  tryNextSuspect(step);
  for (const key of [...record.orphans].slice(0, ADOPT_SHARE)) settle(step, key);
  if (!mayHaveOffers) return record.orphans.size > 0;
  const known = new Set(step.adopted.map((adoption) => adoption.seq));
  for (const entry of me.tickets.values()) {
    if (!entry.offered || entry.message === null || entry.batch > answered || known.has(entry.seq)) continue;
    if (step.adopted.length >= ADOPT_SHARE) return true;
    // R10: in the store's former life a later fence of this key may have been given.
    if (!isGranted(step, entry)) hold(step, entry);
    offer(step, entry, entry.message);
  }
  return record.orphans.size > 0;
}

/** Nobody listens there any more: what was offered and never heard of goes to somebody else, its attempt not begun. */
function takeOffersBack(step: Step, me: Row, answered: number): void {
  for (const entry of inPlaces(me)) {
    if (!entry.offered || entry.batch > answered) continue;
    entry.fence = 0;
    entry.offered = false;
    detach(step, me, entry);
  }
}

function forgetExpired(step: Step): void {
  let left = FORGET_SHARE;
  for (const [name, untilMs] of step.record.done) {
    if (untilMs > step.wallMs || left-- === 0) return;
    step.record.done.delete(name);
  }
}

function forgetPaces(step: Step): void {
  let left = FORGET_SHARE;
  for (const [name, untilMs] of step.record.paces) {
    if (left-- === 0) return;
    if (untilMs <= step.wallMs) step.record.paces.delete(name);
  }
}

export function leave(record: Ledger, request: LeaveRequest, moment: Moment, pushes: Outgoing[]): void {
  const step = begin(record, moment, pushes);
  const row = record.live.get(request.epoch);
  if (row === undefined || row.instance !== request.instance) return;
  // Unfinished messages go on elsewhere; a replica that leaves in good order does not count against them.
  for (const entry of row.tickets.values()) if (entry.message !== null) entry.fence = 0;
  bury(step, row);
}

/** For the holder of a key, who may finish what waits there together with its turn. Not a step: changes nothing. */
export function waiting(record: Ledger, { key, seq, limit }: WaitingRequest): Waiting[] {
  const queue = record.queues.get(key);
  const found: Waiting[] = [];
  if (queue?.at(0)?.seq !== seq) return found;
  const most = Math.min(limit, WAITING_SHARE);
  for (const entry of queue) {
    if (found.length >= most) break;
    if (entry.seq === seq || entry.message === null) continue;
    const { id, body, attempt } = entry.message;
    found.push({ seq: entry.seq, id, body, attempt });
  }
  return found;
}

/** A generic cell rate: slots `costMs` apart, by the clock of the stamps. No lease hangs on it. */
export function pace(record: Ledger, request: PaceRequest, moment: Moment): PaceAnswer {
  const { name, costMs, burstMs, pauseMs } = request;
  const wallMs = wallOf(record, moment);
  const latestMs = wallMs + LONGEST_PACE_MS;
  const untilMs = Math.min(Math.max(record.paces.get(name) ?? 0, wallMs), latestMs);
  const nextMs = pauseMs > 0 ? Math.min(Math.max(untilMs, wallMs + pauseMs + burstMs), latestMs) : untilMs;
  record.paces.set(name, Math.min(pauseMs > 0 ? nextMs : nextMs + costMs, latestMs));
  return { waitMs: Math.max(0, nextMs - burstMs - wallMs) };
}

/**
 * Declares an epoch dead at once: for tests, and for hosts that know. Nobody's answer tells what was parked by it: whoever
 * calls it sees to it that a live replica's next heartbeat does.
 */
export function kill(record: Ledger, epoch: number, moment: Moment, pushes: Outgoing[]): readonly ParkedNotice[] {
  const step = begin(record, moment, pushes);
  const row = record.live.get(epoch);
  if (row !== undefined) bury(step, row);
  return step.parked;
}

/** A heartbeat's answer that also tells of what was parked beside any answer. */
export function telling(answer: BeatAnswer & { kind: 'alive' }, parked: readonly ParkedNotice[]): BeatAnswer {
  if (parked.length === 0) return answer;
  return { ...answer, news: { ...answer.news, parked: [...parked, ...answer.news.parked] } };
}
