import type { ApplyAnswer, ApplyRequest, BeatAnswer, BeatRequest, Grant, JoinAnswer, News } from '@botmesh/core/spi';

/** Time passes in ticks, one heartbeat each: a lease is 6 of them, trust 4, the longest gap of a witness 2. */
export const TICK_MS = 2000;
export const LEASE_TICKS = 6;
export const TRUST_TICKS = 4;

/** A request on its way to the store, or its answer on its way back. */
export interface Flight {
  readonly kind: 'beat' | 'apply';
  readonly sentAt: number;
  readonly request: BeatRequest | ApplyRequest;
  readonly answer: BeatAnswer | ApplyAnswer | undefined;
}

export interface ModelPlace {
  readonly key: string;
  readonly seq: number;
  readonly fence: number;
  readonly isEnding: boolean;
}

/** What one replica knows: the engine's rules about trust, eras and grants, without its timers. Never changed, only copied. */
export interface Client {
  readonly replicaId: string;
  readonly instance: string;
  readonly phase: 'off' | 'out' | 'in';
  /** Its process is stopped: it neither beats nor acts nor hears. */
  readonly isPaused: boolean;
  readonly epoch: number;
  readonly firstEpoch: number;
  readonly era: number;
  readonly eraSince: number;
  /** The tick in which the last answered heartbeat was sent; undefined without trust. */
  readonly trustedFrom: number | undefined;
  readonly batch: number;
  readonly answered: number;
  readonly beats: number;
  readonly seen: number;
  readonly places: readonly ModelPlace[];
  readonly flight: Flight | undefined;
  /** A grant pushed and not heard yet. */
  readonly pushed: (Grant & { readonly era: number; readonly epoch: number }) | undefined;
}

/** Rules that a planted bug leaves out. */
export interface ClientRules {
  readonly trustTicks: number;
  /** R5: trust runs from the moment before the heartbeat was sent, not from its answer. */
  readonly trustFromSend: boolean;
  /** A grant of another era than the last heartbeat's is not believed. */
  readonly checksEra: boolean;
  /** A grant is not believed without trust. */
  readonly checksTrust: boolean;
}

export const ALL_RULES: ClientRules = {
  trustTicks: TRUST_TICKS,
  trustFromSend: true,
  checksEra: true,
  checksTrust: true,
};

export function newClient(replicaId: string, instance: string): Client {
  return {
    replicaId,
    instance,
    phase: 'out',
    isPaused: false,
    epoch: 0,
    firstEpoch: 0,
    era: 0,
    eraSince: 0,
    trustedFrom: undefined,
    batch: 0,
    answered: 0,
    beats: 0,
    seen: 0,
    places: [],
    flight: undefined,
    pushed: undefined,
  };
}

export function isTrusted(client: Client, now: number, rules: ClientRules): boolean {
  return client.trustedFrom !== undefined && now - client.trustedFrom < rules.trustTicks;
}

/** The places that the client believes to hold now. */
export function believed(client: Client, now: number, rules: ClientRules): ModelPlace[] {
  if (client.phase !== 'in' || !isTrusted(client, now, rules)) return [];
  return client.places.filter((place) => place.fence !== 0 && !place.isEnding);
}

/** Trust that ran out is gone, and what was granted under it has to be granted anew. */
export function look(client: Client, now: number, rules: ClientRules): Client {
  if (client.trustedFrom === undefined || isTrusted(client, now, rules)) return client;
  const places = client.places.map((place) => (place.isEnding ? place : { ...place, fence: 0 }));
  return { ...client, trustedFrom: undefined, places };
}

export function onJoined(client: Client, answer: JoinAnswer, now: number): Client {
  if (answer.kind !== 'joined') return { ...client, phase: 'off', places: [] };
  const { epoch, era } = answer;
  const firstEpoch = client.firstEpoch === 0 ? epoch : client.firstEpoch;
  const seen = Math.max(client.seen, epoch);
  const fresh = { batch: 0, answered: 0, beats: 0, places: [], flight: undefined, pushed: undefined };
  const eraSince = era === client.era ? client.eraSince : now;
  return { ...client, ...fresh, phase: 'in', epoch, firstEpoch, era, eraSince, seen, trustedFrom: now };
}

/** Its epoch is over. */
function dropOut(client: Client, phase: 'out' | 'off'): Client {
  return { ...client, phase, trustedFrom: undefined, places: [], flight: undefined, pushed: undefined };
}

export function onBeat(before: Client, answer: BeatAnswer, flight: Flight, now: number, rules: ClientRules): Client {
  if (answer.kind === 'dead') return dropOut(before, 'out');
  if (answer.kind === 'replaced') return dropOut(before, 'off');
  if (answer.kind === 'stale') return { ...before, flight: undefined };
  let client: Client = look({ ...before, flight: undefined }, now, rules);
  const { view } = flight.request as BeatRequest;
  if (answer.era !== client.era) {
    const listed = new Map(view.map(({ seq, fence }) => [seq, fence]));
    const places = client.places.map((place) =>
      place.isEnding || listed.get(place.seq) === place.fence ? place : { ...place, fence: 0 },
    );
    client = { ...client, era: answer.era, eraSince: now, places };
  }
  const lost = new Map(answer.lost.map(({ seq, fence }) => [seq, fence]));
  const places = client.places.filter((place) => place.isEnding || lost.get(place.seq) !== place.fence);
  const trustedFrom = rules.trustFromSend ? flight.sentAt : now;
  client = look({ ...client, places, trustedFrom }, now, rules);
  return onNews(client, answer.news, answer.era, now, rules);
}

export function onApplied(
  before: Client,
  answer: ApplyAnswer,
  flight: Flight,
  now: number,
  rules: ClientRules,
): Client {
  if (answer.kind === 'dead') return dropOut(before, 'out');
  if (answer.kind !== 'applied') return dropOut(before, 'off');
  const { batch, ops } = flight.request as ApplyRequest;
  let client: Client = look({ ...before, flight: undefined, answered: batch }, now, rules);
  for (const [at, op] of ops.entries()) {
    const taken = answer.results[at];
    if (op.op === 'release') {
      client = { ...client, places: client.places.filter((place) => place.seq !== op.seq) };
    } else if (taken !== null && taken !== undefined) {
      const place = { key: op.key, seq: taken.seq, fence: 0, isEnding: false };
      client = { ...client, places: [...client.places, place], seen: Math.max(client.seen, taken.seq) };
      if (taken.fence !== 0) client = onGrant(client, { key: op.key, ...taken }, answer.era, now, rules);
    }
  }
  return onNews(client, answer.news, answer.era, now, rules);
}

function onNews(before: Client, news: News, era: number, now: number, rules: ClientRules): Client {
  let client = before;
  for (const grant of news.grants) client = onGrant(client, grant, era, now, rules);
  for (const { fence, key, seq } of news.adopted) {
    if (client.places.some((place) => place.seq === seq)) continue;
    client = { ...client, places: [...client.places, { key, seq, fence: 0, isEnding: false }] };
    client = onGrant(client, { key, seq, fence }, era, now, rules);
  }
  return client;
}

export function onGrant(before: Client, grant: Grant, era: number, now: number, rules: ClientRules): Client {
  const seen = { ...before, seen: Math.max(before.seen, grant.fence) };
  const client = look(seen, now, rules);
  if (rules.checksEra && era !== client.era) return client;
  if (rules.checksTrust && !isTrusted(client, now, rules)) return client;
  const places = client.places.map((place) =>
    place.seq === grant.seq && !place.isEnding && grant.fence > place.fence ? { ...place, fence: grant.fence } : place,
  );
  return { ...client, places };
}
