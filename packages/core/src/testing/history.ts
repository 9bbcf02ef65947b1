/**
 * What happened in one run, as seen by the replicas, and what of it breaks the contract. Times are milliseconds of one
 * monotonic clock common to all recorders: virtual time, or `hrtime` of one machine.
 */
interface At {
  readonly at: number;
  readonly replica: string;
  readonly key: string;
}

/** A place was asked for at `calledAt` and answered at `at`. `call` numbers the calls of one replica. */
interface Asked extends At {
  readonly calledAt: number;
  readonly call: number;
  readonly seq: number;
}

export type HistoryEvent =
  | (Asked & { readonly kind: 'reserved' })
  /** A message was taken in. */
  | (Asked & { readonly kind: 'accepted'; readonly id?: string })
  /** A replica was handed a turn or leadership. */
  | (At & { readonly kind: 'granted'; readonly seq: number; readonly fence: number; readonly attempt?: number })
  /** `assertHeld` passed: the replica believes, at this moment, that the key is its own. */
  | (At & { readonly kind: 'held'; readonly fence: number })
  /** The turn was let go (`released`) or its signal aborted. */
  | (At & { readonly kind: 'ended'; readonly fence: number; readonly why: string })
  /** A ticket was refused its turn: superseded, unavailable. A message lives on elsewhere. */
  | (At & { readonly kind: 'lost'; readonly seq: number; readonly why: string })
  /** A ticket was given up by its own holder, with its message. */
  | (At & { readonly kind: 'withdrawn'; readonly seq: number })
  | (At & { readonly kind: 'handled'; readonly seq: number })
  | (At & { readonly kind: 'parked'; readonly seq: number })
  | (At & { readonly kind: 'written'; readonly fence: number; readonly accepted: boolean })
  /** The process ended: nobody tells what became of its tickets. Its messages live on. */
  | { readonly kind: 'gone'; readonly at: number; readonly replica: string }
  /** The store lost what it wrote between the stamps `keptTo` and `lostTo`. 0 kept: it was wiped. */
  | {
      readonly kind: 'data-lost';
      readonly at: number;
      readonly keptTo: number;
      readonly lostTo: number;
      /** When the copy was made that was put back: what came later is lost, whatever its stamps. */
      readonly copiedAt?: number;
    };

export type HistoryRule =
  | 'call-order'
  | 'turn-order'
  | 'adoption'
  | 'exclusion'
  | 'fence'
  | 'lapsed'
  | 'stale-write'
  | 'dedupe'
  | 'ticket-without-end'
  | 'message-lost';

export interface Violation {
  readonly rule: HistoryRule;
  readonly key: string;
  /** When the event happened that broke it. */
  readonly at: number;
  /** One sentence that names the events. */
  readonly text: string;
}

export interface HistoryOptions {
  /** The run was drained: every ticket must have come to an end, every message been handled or parked. */
  readonly finished?: boolean;
  /** How long the id of a handled message is remembered. */
  readonly dedupeMs?: number;
}

type Of<K extends HistoryEvent['kind']> = Extract<HistoryEvent, { kind: K }>;

/**
 * Every way in which `events` break the contract, in O(n log n). Finds nothing wrong with what was not recorded: a belief
 * nobody asserted overlaps with nothing.
 */
export function checkHistory(events: readonly HistoryEvent[], options: HistoryOptions = {}): Violation[] {
  const losses = events.filter((event) => event.kind === 'data-lost');
  const gone = new Set(events.filter((event) => event.kind === 'gone').map((event) => event.replica));
  const keys = new Map<string, KeyHistory>();
  for (const event of events) {
    if (event.kind === 'data-lost' || event.kind === 'gone') continue;
    let history = keys.get(event.key);
    if (history === undefined) {
      history = new Map();
      keys.set(event.key, history);
    }
    const list = history.get(event.kind);
    if (list === undefined) history.set(event.kind, [event]);
    else list.push(event);
  }
  const violations: Violation[] = [];
  for (const [key, history] of keys) {
    const report: Report = (rule, { at }, text) => violations.push({ rule, key, at, text });
    checkKey(history, { losses, gone }, options, report);
  }
  return violations;
}

type KeyHistory = Map<HistoryEvent['kind'], HistoryEvent[]>;

function of<K extends HistoryEvent['kind']>(history: KeyHistory, ...kinds: K[]): Of<K>[] {
  return kinds.flatMap((kind) => (history.get(kind) ?? []) as Of<K>[]);
}

/** What befell the whole mesh. */
interface Mishaps {
  readonly losses: readonly Of<'data-lost'>[];
  readonly gone: ReadonlySet<string>;
}

function checkKey(history: KeyHistory, mishaps: Mishaps, options: HistoryOptions, report: Report): void {
  const { losses } = mishaps;
  checkCallOrder(of(history, 'reserved', 'accepted'), losses, report);
  checkTurnOrder(of(history, 'granted'), losses, report);
  checkFences(of(history, 'granted'), report);
  checkBelief(history, report);
  checkWrites(of(history, 'written'), of(history, 'granted'), report);
  checkIds(history, losses, options.dedupeMs ?? Number.POSITIVE_INFINITY, report);
  if (options.finished === true) checkEnds(history, mishaps, report);
}

type Report = (rule: HistoryRule, by: { readonly at: number }, text: string) => void;

/** Answered before the other was asked for: the lower number. Calls of one replica: their order, answered or not. */
function checkCallOrder(
  asked: readonly (Of<'reserved'> | Of<'accepted'>)[],
  losses: readonly Of<'data-lost'>[],
  report: Report,
): void {
  // A store that lost its data lost the places: they are ordered among themselves from there on.
  const isBehind = (a: (typeof asked)[number], b: (typeof asked)[number]): boolean =>
    a.seq >= b.seq && !losses.some((loss) => a.calledAt <= loss.at && loss.at <= b.at);
  const byAnswer = [...asked].sort((a, b) => a.at - b.at);
  let answered = 0;
  let greatest: (typeof asked)[number] | undefined;
  for (const next of [...asked].sort((a, b) => a.calledAt - b.calledAt)) {
    for (let first = byAnswer[answered]; first !== undefined && first.at < next.calledAt; first = byAnswer[answered]) {
      if (greatest === undefined || first.seq > greatest.seq) greatest = first;
      answered += 1;
    }
    if (greatest !== undefined && isBehind(greatest, next)) {
      report(
        'call-order',
        next,
        `${tell(greatest)} was answered before ${tell(next)} was asked for, but stands behind it.`,
      );
    }
  }
  const last = new Map<string, (typeof asked)[number]>();
  for (const next of [...asked].sort((a, b) => a.call - b.call)) {
    const before = last.get(next.replica);
    if (before !== undefined && isBehind(before, next)) {
      report(
        'call-order',
        next,
        `${tell(before)} was called before ${tell(next)} by one replica, but stands behind it.`,
      );
    }
    last.set(next.replica, next);
  }
}

/** In the order of the fences, places never go back, but across a loss of data, which may bring back what was done. */
function checkTurnOrder(grants: readonly Of<'granted'>[], losses: readonly Of<'data-lost'>[], report: Report): void {
  let before: Of<'granted'> | undefined;
  for (const next of [...grants].sort((a, b) => a.fence - b.fence)) {
    const last = before;
    before = next;
    if (last === undefined || last.seq <= next.seq) continue;
    if (losses.some((loss) => last.fence <= loss.lostTo && loss.lostTo < next.fence)) continue;
    const rule = (next.attempt ?? 1) > 1 ? 'adoption' : 'turn-order';
    report(rule, next, `${tell(next)} stood before ${tell(last)} but came after it.`);
  }
}

function checkFences(grants: readonly Of<'granted'>[], report: Report): void {
  let greatest: Of<'granted'> | undefined;
  for (const next of inTime(grants)) {
    if (greatest !== undefined && next.fence <= greatest.fence) {
      report('fence', next, `${tell(next)} has no greater fence than the earlier ${tell(greatest)}.`);
    } else {
      greatest = next;
    }
  }
}

/** Between its grant and its last passed `assertHeld` nobody else is granted the key or passes one. */
function checkBelief(history: KeyHistory, report: Report): void {
  const ended = new Map<number, Of<'ended'>>();
  for (const event of of(history, 'ended')) if (!ended.has(event.fence)) ended.set(event.fence, event);
  const beliefs = new Map<string, { from: Of<'granted' | 'held'>; to: Of<'granted' | 'held'> }>();
  for (const event of inTime(of(history, 'granted', 'held'))) {
    const end = ended.get(event.fence);
    if (end !== undefined && end.replica === event.replica && end.at < event.at) {
      report('lapsed', event, `${tell(event)} came after ${tell(end)}.`);
    }
    const who = `${event.fence} ${event.replica}`;
    const belief = beliefs.get(who);
    if (belief === undefined) beliefs.set(who, { from: event, to: event });
    else belief.to = event;
  }
  let longest: Of<'granted' | 'held'> | undefined;
  for (const { from, to } of [...beliefs.values()].sort((a, b) => a.from.at - b.from.at)) {
    // Two that touch at one instant overlap only if the first one's assertion came later in that instant: not known.
    if (longest !== undefined && longest.at > from.at)
      report('exclusion', longest, `${tell(from)} came before ${tell(longest)}.`);
    if (longest === undefined || to.at > longest.at) longest = to;
  }
}

function checkWrites(writes: readonly Of<'written'>[], grants: readonly Of<'granted'>[], report: Report): void {
  const given = new Set(grants.map((grant) => grant.fence));
  let greatest: Of<'written'> | undefined;
  for (const write of inTime(writes)) {
    if (!write.accepted) continue;
    if (!given.has(write.fence)) report('stale-write', write, `${tell(write)} has a fence that nobody was given.`);
    if (greatest !== undefined && write.fence < greatest.fence) {
      report('stale-write', write, `${tell(write)} was accepted after ${tell(greatest)}.`);
    } else {
      greatest = write;
    }
  }
}

/** One id, taken in twice: only when the first was given up, lost by the store, or done long ago. */
function checkIds(history: KeyHistory, losses: readonly Of<'data-lost'>[], dedupeMs: number, report: Report): void {
  const givenUp = new Set(of(history, 'withdrawn').map((event) => event.seq));
  const handled = new Map(of(history, 'handled').map((event) => [event.seq, event.at]));
  const last = new Map<string, Of<'accepted'>>();
  for (const next of [...of(history, 'accepted')].sort((a, b) => a.seq - b.seq)) {
    if (next.id === undefined) continue;
    const first = last.get(next.id);
    last.set(next.id, next);
    if (first === undefined || givenUp.has(first.seq)) continue;
    if (losses.some((loss) => loss.at <= next.at && isLost(first, loss))) continue;
    if (next.at - (handled.get(first.seq) ?? Number.POSITIVE_INFINITY) >= dedupeMs) continue;
    report('dedupe', next, `${tell(next)} has the id of ${tell(first)}.`);
  }
}

function isLost(message: Of<'accepted'>, { at, keptTo, copiedAt }: Of<'data-lost'>): boolean {
  const isAfterCopy = copiedAt !== undefined && copiedAt <= message.at;
  return message.calledAt <= at && (keptTo < message.seq || isAfterCopy);
}

function checkEnds(history: KeyHistory, { losses, gone }: Mishaps, report: Report): void {
  const over = new Set(of(history, 'withdrawn', 'handled', 'parked').map((event) => event.seq));
  for (const message of of(history, 'accepted')) {
    const wasLost = losses.some((loss) => isLost(message, loss));
    if (!over.has(message.seq) && !wasLost)
      report('message-lost', message, `${tell(message)} was never handled to its end.`);
  }
  const granted = new Map(of(history, 'granted').map((grant) => [grant.seq, grant]));
  const ended = new Set(of(history, 'ended').map((event) => event.fence));
  const refused = new Set(of(history, 'withdrawn', 'lost').map((event) => event.seq));
  for (const ticket of of(history, 'reserved')) {
    const grant = granted.get(ticket.seq);
    const isOver = grant === undefined ? refused.has(ticket.seq) : ended.has(grant.fence);
    if (!isOver && !gone.has(ticket.replica))
      report('ticket-without-end', grant ?? ticket, `${tell(grant ?? ticket)} never ended.`);
  }
}

/** By time; events of one instant keep the order in which they were recorded. */
function inTime<T extends At>(events: readonly T[]): T[] {
  return [...events].sort((a, b) => a.at - b.at);
}

function tell(event: Exclude<HistoryEvent, { kind: 'data-lost' | 'gone' }>): string {
  const { kind, replica, key, at } = event;
  const seq = 'seq' in event ? ` seq ${event.seq}` : '';
  const fence = 'fence' in event ? ` fence ${event.fence}` : '';
  const id = 'id' in event && event.id !== undefined ? ` id ${JSON.stringify(event.id)}` : '';
  return `"${kind} ${JSON.stringify(key)}${seq}${fence}${id} by ${replica} at ${at}"`;
}
