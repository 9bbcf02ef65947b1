/**
 * The protocol's steps as transitions over plain data: deterministic in (record, request, time), no I/O, no timers.
 * Every backend makes these steps in its own language; the differential runner holds it to the answers given here.
 */
import type {
  Adoption,
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  Grant,
  JoinAnswer,
  JoinRequest,
  LeaveRequest,
  MeshConfig,
  Op,
  ParkedNotice,
  ParkedView,
  Push,
  StoreView,
  Taken,
} from './store.js';
import { timing } from './timing.js';

/** A place in a queue. The head of a queue holds its key iff `fence` is not 0 and `era` is the record's. */
export interface Entry {
  readonly key: string;
  readonly seq: number;
  /** The epoch it belongs to; 0 for a message that nobody owns. */
  owner: number;
  fence: number;
  /** The era in which the fence was given or confirmed. */
  era: number;
  /** The owner's batch that brought it; 0 when it came by a heartbeat. */
  batch: number;
  /** Handed to its owner unasked; cleared when the owner first lists it. */
  offered: boolean;
  readonly message: Message | null;
}

export interface Message {
  readonly id: string | null;
  readonly body: string;
  readonly maxAttempts: number;
  readonly dedupeMs: number;
  attempt: number;
}

/** A live epoch. */
export interface Row {
  readonly epoch: number;
  readonly replicaId: string;
  readonly instance: string;
  readonly firstEpoch: number;
  /** Instances whose place it took: a late join of theirs may not take it back. */
  readonly formerly: readonly string[];
  /** When its last heartbeat came. */
  beat: number;
  /** That heartbeat's number. */
  beatNumber: number;
  /** Start of its unbroken row of heartbeats. */
  since: number;
  /** A newer start has its replicaId: refused in everything, kept until it has surely ended. */
  replaced: boolean;
  adopts: boolean;
  batch: number;
  reply: ApplyAnswer | null;
  /** Its entries by seq. */
  readonly tickets: Map<number, Entry>;
}

/** The whole shared record of one shard. */
export interface MeshRecord {
  config: MeshConfig | null;
  /** The server's identity when the record was last touched. */
  run: string | null;
  era: number;
  /** How long a replica must have watched this era before anything is granted; 0 when there is no quarantine. */
  quarantineMs: number;
  /** The last stamp given. */
  last: number;
  readonly live: Map<number, Row>;
  /** Non-empty queues only; the first entry is the head. */
  readonly queues: Map<string, Entry[]>;
  /** Keys whose head is a message that nobody could take over yet. */
  readonly orphans: Set<string>;
  /** Ids of messages that wait, run or are parked. */
  readonly taken: Set<string>;
  /** Ids of finished messages, and until when they are remembered. In order of finishing. */
  readonly done: Map<string, number>;
  readonly parked: ParkedView[];
}

export function emptyRecord(): MeshRecord {
  return {
    config: null,
    run: null,
    era: 0,
    quarantineMs: 0,
    last: 0,
    live: new Map(),
    queues: new Map(),
    orphans: new Set(),
    taken: new Set(),
    done: new Map(),
    parked: [],
  };
}

/** What the server knows when a step runs. */
export interface Moment {
  readonly nowMs: number;
  /** Changes whenever the server may have lost writes. */
  readonly run: string;
}

/** One step under way: the record, the moment, who runs it, and what it causes. */
interface Step {
  readonly record: MeshRecord;
  readonly nowMs: number;
  me: Row | null;
  readonly batch: number;
  /** The last stamp given before this step: greater fences were given in it. */
  readonly stampBefore: number;
  /** The entry being enqueued: its grant is its result, not news. */
  fresh: Entry | null;
  readonly grants: Grant[];
  readonly adopted: Adoption[];
  readonly parked: ParkedNotice[];
  readonly pushes: Outgoing[];
}

export interface Outgoing {
  readonly instance: string;
  readonly push: Push;
}

/** No answer hands out more messages than this. */
const ADOPT_SHARE = 64;
/** No heartbeat forgets more expired ids than this. */
const FORGET_SHARE = 1024;
/** Live rows this many leases old no longer pin the configuration. */
const STALE_PIN_LEASES = 3;

function begin(record: MeshRecord, moment: Moment, pushes: Outgoing[], batch = 0): Step {
  const step: Step = {
    record,
    nowMs: moment.nowMs,
    me: null,
    batch,
    stampBefore: record.last,
    fresh: null,
    grants: [],
    adopted: [],
    parked: [],
    pushes,
  };
  noticeServerChange(step, moment.run);
  return step;
}

/** R9: a server that may have lost writes starts a new era, in which nothing is granted for a while. */
function noticeServerChange(step: Step, run: string): void {
  const { record } = step;
  if (record.run === run) return;
  record.run = run;
  startEra(step, record.config?.leaseMs ?? 0);
}

function startEra(step: Step, leaseMs: number): void {
  const { record } = step;
  record.era = stamp(step);
  record.quarantineMs = leaseMs === 0 ? Number.POSITIVE_INFINITY : timing(leaseMs).quarantineMs;
  // A witness's unbroken row of heartbeats ends here: its stamps may be from before the change.
  for (const row of record.live.values()) row.since = step.nowMs;
}

/** R8: stamps rise also when the counter was lost, because the clock went on. */
function stamp(step: Step): number {
  const { record } = step;
  record.last = Math.max(record.last + 1, Math.floor(step.nowMs * 1000));
  return record.last;
}

function noteSeen(record: MeshRecord, seen: number): void {
  if (seen > record.last) record.last = seen;
}

/** The caller's row if it may act; otherwise why not (R3). */
function admit(step: Step, epoch: number, instance: string): Row | 'dead' | 'replaced' {
  const row = step.record.live.get(epoch);
  if (row === undefined || row.instance !== instance) return 'dead';
  if (row.replaced) return 'replaced';
  step.me = row;
  return row;
}

/** R2: only a replica whose own heartbeats are unbroken for a whole lease may declare a death. */
function isWitness(step: Step, row: Row): boolean {
  const { leaseMs, gapMs } = timing(configOf(step).leaseMs);
  const gap = step.nowMs - row.beat;
  return gap >= 0 && gap <= gapMs && step.nowMs - row.since >= leaseMs;
}

function isOver(step: Step, row: Row): boolean {
  return step.me !== null && step.nowMs - row.beat > configOf(step).leaseMs && isWitness(step, step.me);
}

function configOf(step: Step): MeshConfig {
  if (step.record.config === null) throw new Error('A step before any join.');
  return step.record.config;
}

// ── Queues ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function isGranted(step: Step, entry: Entry): boolean {
  return entry.fence !== 0 && entry.era === step.record.era;
}

/**
 * Brings the head of `key` to a live owner and grants it: skips the dead, hands their messages on. Every step that
 * changes a head ends here.
 */
function settle(step: Step, key: string): void {
  const { record } = step;
  const queue = record.queues.get(key);
  if (queue === undefined) return;
  for (let head = queue[0]; head !== undefined; head = queue[0]) {
    const owner = record.live.get(head.owner);
    if (owner !== undefined) {
      if (isGranted(step, head)) return;
      // A replaced replica may still believe in an old grant until it leaves or its lease is over.
      if (owner.replaced && head.fence !== 0) return;
      if (!owner.replaced) {
        if (record.quarantineMs === 0) grant(step, head, owner);
        return;
      }
    }
    if (head.message !== null && !passOn(step, head, head.message)) {
      record.orphans.add(key);
      return;
    }
    if (head.message !== null) continue;
    queue.shift();
    owner?.tickets.delete(head.seq);
  }
  record.queues.delete(key);
  record.orphans.delete(key);
}

function grant(step: Step, entry: Entry, owner: Row): void {
  hold(step, entry);
  const { key, seq, fence } = entry;
  if (entry === step.fresh) return;
  if (owner === step.me) step.grants.push({ key, seq, fence });
  else push(step, owner, { kind: 'grant', epoch: owner.epoch, era: entry.era, key, seq, fence });
}

function hold(step: Step, entry: Entry): void {
  entry.fence = stamp(step);
  entry.era = step.record.era;
}

/** Gives a message whose owner is gone to a live replica, or parks it. False when nobody can take it now. */
function passOn(step: Step, entry: Entry, message: Message): boolean {
  const { record } = step;
  if (entry.fence !== 0) {
    entry.fence = 0;
    message.attempt += 1;
  }
  record.live.get(entry.owner)?.tickets.delete(entry.seq);
  entry.owner = 0;
  if (message.attempt > message.maxAttempts) {
    park(step, entry, message);
    return true;
  }
  if (record.quarantineMs !== 0) return false;
  const adopter = chooseAdopter(step);
  if (adopter === undefined) return false;
  record.orphans.delete(entry.key);
  entry.owner = adopter.epoch;
  entry.batch = adopter === step.me ? step.batch : 0;
  entry.offered = true;
  adopter.tickets.set(entry.seq, entry);
  hold(step, entry);
  if (adopter === step.me) offer(step, entry, message);
  else push(step, adopter, { kind: 'look', epoch: adopter.epoch });
  return true;
}

function offer(step: Step, entry: Entry, message: Message): void {
  const { key, seq, fence } = entry;
  step.adopted.push({ key, seq, fence, id: message.id, body: message.body, attempt: message.attempt });
}

/** The caller if it can, else the live replica with the fewest tickets. */
function chooseAdopter(step: Step): Row | undefined {
  const { me, record } = step;
  if (me?.adopts && step.adopted.length < ADOPT_SHARE) return me;
  let best: Row | undefined;
  for (const row of record.live.values()) {
    if (!row.adopts || row.replaced || row === me) continue;
    if (best === undefined || row.tickets.size < best.tickets.size) best = row;
  }
  return best;
}

function park(step: Step, entry: Entry, message: Message): void {
  const attempts = message.attempt - 1;
  step.record.parked.push({ key: entry.key, seq: entry.seq, id: message.id, body: message.body, attempts });
  step.parked.push({ key: entry.key, id: message.id, attempts });
  takeOut(step, entry);
}

/** Removes an entry from its queue, wherever it stands. Does not settle. */
function takeOut(step: Step, entry: Entry): void {
  const queue = step.record.queues.get(entry.key);
  if (queue === undefined) return;
  if (queue[0] === entry) queue.shift();
  else {
    const at = queue.indexOf(entry);
    if (at !== -1) queue.splice(at, 1);
  }
}

/** R1: removing the row is the death. All its tickets count no more from here on. */
function bury(step: Step, row: Row): void {
  const { record } = step;
  record.live.delete(row.epoch);
  for (const entry of row.tickets.values()) {
    // Those further back are skipped when they come to the head.
    if (record.queues.get(entry.key)?.[0] === entry) settle(step, entry.key);
  }
}

function push(step: Step, to: Row, what: Push): void {
  step.pushes.push({ instance: to.instance, push: what });
}

// ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────────────

function run(step: Step, me: Row, op: Op): Taken | null {
  switch (op.op) {
    case 'reserve':
      return enqueue(step, me, op.key, null);
    case 'try':
      return tryTake(step, me, op.key);
    case 'accept':
      return accept(step, me, op);
    case 'release':
      release(step, me, op);
      return null;
  }
}

function enqueue(step: Step, me: Row, key: string, message: Message | null): Taken {
  const { record } = step;
  const entry: Entry = {
    key,
    seq: stamp(step),
    owner: me.epoch,
    fence: 0,
    era: 0,
    batch: step.batch,
    offered: false,
    message,
  };
  me.tickets.set(entry.seq, entry);
  const queue = record.queues.get(key);
  if (queue === undefined) {
    record.queues.set(key, [entry]);
    if (record.quarantineMs === 0) hold(step, entry);
    return { seq: entry.seq, fence: entry.fence };
  }
  queue.push(entry);
  step.fresh = entry;
  clearWay(step, me, queue);
  step.fresh = null;
  return { seq: entry.seq, fence: entry.fence };
}

/** Buries the owner of the head if its lease is over, so that nobody queues behind the dead. */
function clearWay(step: Step, me: Row, queue: Entry[]): void {
  const head = queue[0];
  if (head === undefined) return;
  const owner = step.record.live.get(head.owner);
  if (owner === undefined) settle(step, head.key);
  else if (owner !== me && isOver(step, owner)) bury(step, owner);
}

function tryTake(step: Step, me: Row, key: string): Taken | null {
  const { record } = step;
  if (record.quarantineMs !== 0) return null;
  const queue = record.queues.get(key);
  if (queue !== undefined) clearWay(step, me, queue);
  if (record.queues.has(key)) return null;
  return enqueue(step, me, key, null);
}

function accept(step: Step, me: Row, op: Op & { op: 'accept' }): Taken | null {
  const { record } = step;
  const { id, body, maxAttempts, dedupeMs } = op;
  if (id !== null) {
    const name = idName(op.key, id);
    if (record.taken.has(name) || (record.done.get(name) ?? 0) > step.nowMs) return null;
    record.done.delete(name);
    record.taken.add(name);
  }
  return enqueue(step, me, op.key, { id, body, maxAttempts, dedupeMs, attempt: 1 });
}

/** R12 and releases by anyone but the owner: an entry the caller does not own is left alone. */
function release(step: Step, me: Row, op: Op & { op: 'release' }): void {
  const entry = me.tickets.get(op.seq);
  if (entry === undefined || entry.key !== op.key) return;
  const { message } = entry;
  if (message !== null && op.how === 'return') {
    detach(step, me, entry);
    return;
  }
  if (message !== null) forget(step, entry.key, message, op.how === 'done');
  remove(step, me, entry);
}

function remove(step: Step, owner: Row, entry: Entry): void {
  owner.tickets.delete(entry.seq);
  const wasHead = step.record.queues.get(entry.key)?.[0] === entry;
  takeOut(step, entry);
  if (wasHead) settle(step, entry.key);
}

/** Leaves a message in its place without an owner. At the head somebody is found at once. */
function detach(step: Step, owner: Row, entry: Entry): void {
  owner.tickets.delete(entry.seq);
  entry.owner = 0;
  if (step.record.queues.get(entry.key)?.[0] === entry) settle(step, entry.key);
}

/** Frees a message's id, or remembers it for its time when the message is done. */
function forget(step: Step, key: string, message: Message, isDone: boolean): void {
  if (message.id === null) return;
  const name = idName(key, message.id);
  step.record.taken.delete(name);
  if (isDone) step.record.done.set(name, step.nowMs + message.dedupeMs);
}

/** No two pairs of key and id have one name, whatever characters they hold. */
function idName(key: string, id: string): string {
  return `${key.length}:${key}${id}`;
}

// ── Steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────

export function join(record: MeshRecord, request: JoinRequest, moment: Moment, pushes: Outgoing[]): JoinAnswer {
  const step = begin(record, moment, pushes);
  const found = pin(step, request.config);
  if (found !== null) return { kind: 'refused', found };
  noteSeen(record, request.seen);
  const row = [...record.live.values()].find((other) => other.instance === request.instance && !other.replaced);
  if (row !== undefined) {
    // The caller will count its trust from this repetition, so the lease must count from it too.
    renew(step, row);
    return joined(step, row);
  }

  const former = [...record.live.values()].filter((other) => other.replicaId === request.replicaId);
  const current = former.find((other) => !other.replaced);
  if (current !== undefined && isOlder(request, current)) return { kind: 'replaced' };
  for (const other of former) replace(step, other);
  return joined(step, addRow(step, request, current));
}

function joined(step: Step, row: Row): JoinAnswer {
  const { era, quarantineMs } = step.record;
  return { kind: 'joined', epoch: row.epoch, era, quarantined: quarantineMs !== 0 };
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

/** Whether the joining start is older than the one that has its replicaId now. */
function isOlder(request: JoinRequest, current: Row): boolean {
  if (current.formerly.includes(request.instance)) return true;
  return request.firstEpoch !== 0 && current.firstEpoch > request.firstEpoch;
}

/** R4: the newer start has the name from now on; what the older holds stays its own until it has surely ended. */
function replace(step: Step, row: Row): void {
  if (!row.replaced) {
    row.replaced = true;
    push(step, row, { kind: 'replaced', epoch: row.epoch });
  }
  for (const entry of [...row.tickets.values()]) {
    if (entry.fence !== 0) continue;
    if (step.record.queues.get(entry.key)?.[0] === entry) settle(step, entry.key);
  }
}

function addRow(step: Step, request: JoinRequest, former: Row | undefined): Row {
  const epoch = stamp(step);
  const row: Row = {
    epoch,
    replicaId: request.replicaId,
    instance: request.instance,
    firstEpoch: request.firstEpoch === 0 ? epoch : request.firstEpoch,
    formerly: former === undefined ? [] : [...former.formerly, former.instance].slice(-8),
    beat: step.nowMs,
    beatNumber: 0,
    since: step.nowMs,
    replaced: false,
    adopts: request.adopts,
    batch: 0,
    reply: null,
    tickets: new Map(),
  };
  step.record.live.set(epoch, row);
  return row;
}

export function apply(record: MeshRecord, request: ApplyRequest, moment: Moment, pushes: Outgoing[]): ApplyAnswer {
  const step = begin(record, moment, pushes, request.batch);
  const me = admit(step, request.epoch, request.instance);
  if (me === 'dead' || me === 'replaced') return { kind: me };
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

export function beat(record: MeshRecord, request: BeatRequest, moment: Moment, pushes: Outgoing[]): BeatAnswer {
  const step = begin(record, moment, pushes);
  const me = admit(step, request.epoch, request.instance);
  if (me === 'dead' || me === 'replaced') return { kind: me };
  // An old view would take away what came after it.
  if (request.beat <= me.beatNumber) return { kind: 'stale' };
  me.beatNumber = request.beat;
  noteSeen(record, request.seen);
  renew(step, me);
  me.adopts = request.adopts;
  if (request.era === record.era && request.watchedMs >= record.quarantineMs) record.quarantineMs = 0;
  buryTheDead(step, me);

  const lost = compareView(step, me, request);
  const more = lookAround(step, me, request.answered);
  forgetExpired(step);
  push(step, me, { kind: 'ping', epoch: me.epoch });
  const { grants, adopted, parked } = step;
  return {
    kind: 'alive',
    era: record.era,
    quarantined: record.quarantineMs !== 0,
    news: { grants, adopted, parked },
    lost,
    more,
  };
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
  for (const entry of [...me.tickets.values()]) {
    if (listed.has(entry.seq) || entry.offered || entry.batch > request.answered) continue;
    disown(step, me, entry);
  }
  return lost;
}

/** The caller waits for this entry: tell it of a grant it missed, or grant what a server change left open. */
function deliver(step: Step, entry: Entry): void {
  if (step.record.queues.get(entry.key)?.[0] !== entry) return;
  if (!isGranted(step, entry)) settle(step, entry.key);
  else if (entry.fence <= step.stampBefore) step.grants.push({ key: entry.key, seq: entry.seq, fence: entry.fence });
}

function confirm(step: Step, entry: Entry, ticket: Grant): boolean {
  if (entry.fence !== ticket.fence || step.record.queues.get(entry.key)?.[0] !== entry) return false;
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
function lookAround(step: Step, me: Row, answered: number): boolean {
  const { record } = step;
  if (!me.adopts || record.quarantineMs !== 0) return false;
  for (const key of [...record.orphans].slice(0, ADOPT_SHARE)) settle(step, key);
  const known = new Set(step.adopted.map((adoption) => adoption.seq));
  for (const entry of me.tickets.values()) {
    if (!entry.offered || entry.message === null || entry.batch > answered || known.has(entry.seq)) continue;
    if (step.adopted.length >= ADOPT_SHARE) return true;
    offer(step, entry, entry.message);
  }
  return record.orphans.size > 0;
}

function forgetExpired(step: Step): void {
  let left = FORGET_SHARE;
  for (const [name, untilMs] of step.record.done) {
    if (untilMs > step.nowMs || left-- === 0) return;
    step.record.done.delete(name);
  }
}

export function leave(record: MeshRecord, request: LeaveRequest, moment: Moment, pushes: Outgoing[]): void {
  const step = begin(record, moment, pushes);
  const row = record.live.get(request.epoch);
  if (row === undefined || row.instance !== request.instance) return;
  // Unfinished messages go on elsewhere; a replica that leaves in good order does not count against them.
  for (const entry of row.tickets.values()) if (entry.message !== null) entry.fence = 0;
  bury(step, row);
}

/** Declares an epoch dead at once: for tests, and for operators who know. */
export function kill(record: MeshRecord, epoch: number, moment: Moment, pushes: Outgoing[]): void {
  const step = begin(record, moment, pushes);
  const row = record.live.get(epoch);
  if (row !== undefined) bury(step, row);
}

export function inspect(record: MeshRecord, nowMs: number): StoreView {
  return {
    config: record.config,
    era: record.era,
    quarantined: record.quarantineMs !== 0,
    replicas: [...record.live.values()].map((row) => ({
      replicaId: row.replicaId,
      epoch: row.epoch,
      beatAgeMs: nowMs - row.beat,
      replaced: row.replaced,
      tickets: row.tickets.size,
    })),
    queues: [...record.queues].map(([key, queue]) => ({
      key,
      head: { seq: queue[0]?.seq ?? 0, epoch: queue[0]?.owner ?? 0, fence: queue[0]?.fence ?? 0 },
      waiting: queue.length - 1,
    })),
    parked: [...record.parked],
    remembered: record.done.size,
  };
}
