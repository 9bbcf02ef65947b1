import type { AdoptedMessage, Leadership, MailTurn, Ticket } from '@botmesh/core/spi';
import { type Life, MAX_ATTEMPTS } from './Life.js';
import { mailOf } from './Mail.js';
import type { Belief, World } from './World.js';

const HOT_KEYS = ['hot-0', 'hot-1'];
const IDLE_KEYS = Array.from({ length: 24 }, (_, n) => `idle-${n}`);
const NAMES = ['poller', 'socket'];

/** What one task of a bot does, again and again, until the process is over or the run drains. */
export async function work(life: Life): Promise<void> {
  const { world } = life;
  while (!life.isOver && !world.isDraining) {
    await life.sleep(world.between(1, world.times.beatMs));
    if (life.isOver || world.isDraining) return;
    await oneAct(life);
  }
}

async function oneAct(life: Life): Promise<void> {
  if (mailOf(life.world)?.chance(0.15)) return actByMail(life);
  const kind = life.world.below(100);
  if (kind < 40) return turn(life);
  if (kind < 46) return burst(life);
  if (kind < 78) return message(life);
  if (kind < 90) return lead(life);
  return tryLead(life);
}

async function actByMail(life: Life): Promise<void> {
  try {
    await mailOf(life.world)?.act(life, pickKey(life.world));
  } catch (error) {
    judge(life, 'mail', error, {});
  }
}

function pickKey(world: World): string {
  return world.oneOf(world.chance(0.6) ? HOT_KEYS : IDLE_KEYS);
}

// ── Turns ────────────────────────────────────────────────────────────────────────────────────────────────────────────

async function turn(life: Life): Promise<void> {
  const ticket = await reserve(life, pickKey(life.world));
  if (ticket !== undefined) await takeTurn(life, ticket);
}

/** Many places asked for at once, none awaited. */
async function burst(life: Life): Promise<void> {
  const key = pickKey(life.world);
  const tickets = await Promise.all([reserve(life, key), reserve(life, key), reserve(life, key)]);
  const taken = tickets.filter((ticket) => ticket !== undefined);
  await Promise.all(taken.map((ticket) => takeTurn(life, ticket)));
}

async function reserve(life: Life, key: string): Promise<Ticket | undefined> {
  const { world, name: replica } = life;
  const calledAt = world.now();
  life.calls += 1;
  const call = life.calls;
  try {
    const ticket = await life.call(`reserve ${key}`, () => life.coordinator.reserve(key));
    world.record({ kind: 'reserved', replica, key, seq: ticket.seq, calledAt, at: world.now(), call });
    return ticket;
  } catch (error) {
    judge(life, 'reserve', error, {});
    return undefined;
  }
}

async function takeTurn(life: Life, ticket: Ticket): Promise<void> {
  const { world } = life;
  if (world.chance(0.2)) await life.sleep(world.between(0, world.times.beatMs));
  if (!world.isDraining && world.chance(0.03)) {
    world.record({ kind: 'withdrawn', at: world.now(), replica: life.name, key: ticket.key, seq: ticket.seq });
    world.forgotten.set(ticket.key, (world.forgotten.get(ticket.key) ?? 0) + 1);
    return; // Forgotten: after its time at the head it must be given back.
  }
  const held = await acquire(life, ticket, 1);
  if (held === undefined) return;
  await hold(life, held);
  await letGo(life, held, world.chance(0.02) ? 'retry' : 'ticket');
}

interface Held extends Belief {
  readonly seq: number;
  readonly turn: MailTurn;
}

interface Limits {
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

async function acquire(life: Life, ticket: Ticket, attempt: number): Promise<Held | undefined> {
  const { world, name: replica } = life;
  const { key, seq } = ticket;
  const limits = makeLimits(life);
  const asked = world.now();
  try {
    const turn = await life.call(`acquireTurn ${key} ${seq}`, () => life.coordinator.acquireTurn(ticket, limits));
    const { fence } = turn;
    world.record({ kind: 'granted', at: world.now(), replica, key, seq, fence, attempt });
    const signal = world.chance(0.7) ? turn.signal : undefined;
    const held: Held = { life, key, seq, fence, signal, turn, assertHeld: () => turn.assertHeld() };
    watch(life, held);
    mailOf(world)?.listen(life, turn);
    world.granted(held);
    mustHold(world, held);
    return held;
  } catch (error) {
    const isExplained = mailOf(world)?.explains(life, key, seq, kindOf(error)) === true;
    const givenUp = !isExplained && judge(life, `acquireTurn ${key} ${seq}`, error, limits, asked);
    const why = String(error);
    if (givenUp) world.record({ kind: 'withdrawn', at: world.now(), replica, key, seq });
    else world.record({ kind: 'lost', at: world.now(), replica, key, seq, why });
    return undefined;
  }
}

/** A turn is never returned already lapsed. It may be lost to a verdict of the store that came in the same instant. */
function mustHold(world: World, held: Belief): void {
  try {
    held.assertHeld();
  } catch (error) {
    if (kindOf(error) !== 'lease-lost expired') return;
    world.violate(`${held.life.name} was handed ${held.key} already lapsed: ${String(error)}`);
  }
}

function makeLimits(life: Life): Limits {
  const { world } = life;
  if (world.isDraining || world.chance(0.75)) return {};
  if (world.chance(0.6)) return { timeoutMs: world.oneOf([0, 50, 500, 3000, 9000]) };
  const controller = new AbortController();
  if (world.chance(0.2)) controller.abort(new Error('given up'));
  else void life.sleep(world.between(0, 6000)).then(() => controller.abort(new Error('given up')));
  return { signal: controller.signal };
}

function watch(life: Life, held: Held): void {
  const { key, fence, signal } = held;
  signal?.addEventListener('abort', () => {
    const { world } = life;
    world.ended(held);
    const why = String((signal.reason as { reason?: unknown } | undefined)?.reason);
    world.record({ kind: 'ended', at: world.now(), replica: life.name, key, fence, why });
  });
}

/** Holds on for a while, writing now and then. */
async function hold(life: Life, belief: Belief): Promise<void> {
  const { world } = life;
  const isLong = world.chance(0.05);
  const untilMs = world.now() + (isLong ? world.between(0, world.times.leaseMs) : world.between(0, 600));
  while (world.now() < untilMs && !world.isDraining && belief.signal?.aborted !== true) {
    world.write(belief);
    await life.sleep(isLong ? 700 : 200);
  }
  world.write(belief);
}

/** Lets the turn go. A message that was held to the end is handled from then on. */
async function letGo(life: Life, held: Held, how: 'ticket' | 'handled' | 'retry' | 'pass'): Promise<void> {
  const { world, name: replica } = life;
  const { key, seq, fence, turn } = held;
  const mail = mailOf(world);
  const also = mail !== undefined && how === 'handled' ? await mail.behind(life, turn) : [];
  let wasHeld = true;
  try {
    turn.assertHeld();
  } catch {
    wasHeld = false;
  }
  world.ended(held);
  const options = { retry: how === 'retry', pass: how === 'pass', also };
  const released = life.call(`release ${key}`, () => turn.release(options));
  if (held.signal?.aborted !== true) {
    world.record({ kind: 'ended', at: world.now(), replica, key, fence, why: wasHeld ? 'released' : 'lapsed' });
  }
  if (how === 'handled' && wasHeld) {
    world.record({ kind: 'handled', at: world.now(), replica, key, seq });
    mail?.finished(life, key, also);
  }
  if (world.chance(0.1)) void turn.release();
  if (!world.chance(0.3)) await released;
}

// ── Messages ─────────────────────────────────────────────────────────────────────────────────────────────────────────

async function message(life: Life): Promise<void> {
  const { world, name: replica } = life;
  const key = pickKey(world);
  const id = world.chance(0.8) ? `m${world.below(60)}` : undefined;
  const calledAt = world.now();
  life.calls += 1;
  const call = life.calls;
  let ticket: Ticket | null;
  try {
    const given = { body: bodyOf(key, id), ...(id === undefined ? {} : { id }) };
    ticket = await life.call(`accept ${key}`, () => life.coordinator.accept(key, given));
  } catch (error) {
    judge(life, 'accept', error, {});
    return;
  }
  if (ticket === null) {
    world.count('seen: duplicate');
    return;
  }
  const { seq } = ticket;
  world.record({
    kind: 'accepted',
    replica,
    key,
    seq,
    calledAt,
    at: world.now(),
    call,
    ...(id === undefined ? {} : { id }),
  });
  if (!world.isDraining && world.chance(0.02)) return; // Forgotten: it must come again to somebody.
  await handle(life, ticket, 1);
}

/** Somebody else's message, now this process's to handle. */
export function adopt(life: Life, adopted: AdoptedMessage): void {
  const { world } = life;
  world.count('seen: adopted');
  if (adopted.attempt > 1) world.count('seen: adopted after an attempt');
  const { ticket, id, body, attempt } = adopted;
  if (body !== bodyOf(ticket.key, id))
    world.violate(`${life.name} was given another body for ${ticket.key} ${id}: ${body}`);
  if (attempt < 1 || attempt > MAX_ATTEMPTS)
    world.violate(`${life.name} was given attempt ${attempt} of ${ticket.key}`);
  world.note(() => `${life.name} adopts ${adopted.ticket.key} ${adopted.ticket.seq} (attempt ${adopted.attempt})`);
  handle(life, adopted.ticket, adopted.attempt).catch((error: unknown) => {
    world.violate(`${life.name} could not handle an adopted message: ${String(error)}`);
  });
}

function bodyOf(key: string, id: string | undefined): string {
  return `body of ${id ?? 'nobody'} for ${key}`;
}

async function handle(life: Life, ticket: Ticket, attempt: number): Promise<void> {
  const { world } = life;
  const held = await acquire(life, ticket, attempt);
  if (held === undefined) return;
  await hold(life, held);
  await letGo(life, held, endOf(world));
}

function endOf(world: World): 'handled' | 'retry' | 'pass' {
  if (world.isDraining) return 'handled';
  if (mailOf(world)?.chance(0.1)) {
    world.count('seen: passed on');
    return 'pass';
  }
  return world.chance(0.15) ? 'retry' : 'handled';
}

// ── Leadership ───────────────────────────────────────────────────────────────────────────────────────────────────────

async function lead(life: Life): Promise<void> {
  const { world } = life;
  const name = world.oneOf(NAMES);
  const controller = new AbortController();
  const isAborted = !world.isDraining && world.chance(0.25);
  if (isAborted) void life.sleep(world.between(0, 8000)).then(() => controller.abort(new Error('given up')));
  const signal = controller.signal;
  try {
    const leadership = await life.call(`lead ${name}`, () => life.coordinator.lead(name, isAborted ? { signal } : {}));
    await reign(life, leadership);
  } catch (error) {
    judge(life, 'lead', error, isAborted ? { signal } : {});
    if (!signal.aborted && kindOf(error) === 'unavailable') world.violate(`${life.name} lead() ended by an outage`);
  }
}

async function tryLead(life: Life): Promise<void> {
  const { world } = life;
  const name = world.oneOf(NAMES);
  try {
    const leadership = await life.call(`tryLead ${name}`, () => life.coordinator.tryLead(name));
    if (leadership !== null) await reign(life, leadership);
  } catch (error) {
    judge(life, 'tryLead', error, {});
  }
}

async function reign(life: Life, leadership: Leadership): Promise<void> {
  const { world, name: replica } = life;
  const { term: fence, signal } = leadership;
  const key = `leader of ${leadership.name}`;
  // Leaderships show no place: their order is that of their terms.
  world.record({ kind: 'granted', at: world.now(), replica, key, seq: fence, fence });
  const belief: Belief = { life, key, fence, signal, assertHeld: () => leadership.assertHeld() };
  signal.addEventListener('abort', () => world.ended(belief));
  world.granted(belief);
  mustHold(world, belief);
  await hold(life, belief);
  world.ended(belief);
  await life.call(`resign ${leadership.name}`, () => leadership.resign());
}

// ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────

function kindOf(error: unknown): string {
  const { code, reason } = (error ?? {}) as { code?: unknown; reason?: unknown };
  return code === 'lease-lost' ? `lease-lost ${String(reason)}` : String(code);
}

/** Whether the contract allows this error here. True when it means that the caller itself gave its ticket up. */
function judge(life: Life, what: string, error: unknown, limits: Limits, askedAt = 0): boolean {
  const { world } = life;
  const kind = kindOf(error);
  if (limits.signal?.aborted === true && error === limits.signal.reason) {
    world.count('seen: aborted');
    return true;
  }
  if (kind === 'timeout') {
    world.count('seen: timeout');
    if (limits.timeoutMs === undefined) world.violate(`${life.name} ${what}: timed out without a limit`);
    else if (world.now() < askedAt + limits.timeoutMs - 0.01)
      world.violate(`${life.name} ${what}: timed out too early`);
    return true;
  }
  if (kind === 'unavailable') {
    life.mayBeUnavailable(what);
    return false;
  }
  if (kind === 'lease-lost superseded') {
    if (!life.suffered.isolation && !life.suffered.serverChange && !life.isOver) {
      world.violate(`${life.name} ${what}: superseded, although nothing happened to it`);
    }
    return false;
  }
  if (['lease-lost replaced', 'lease-lost stopped', 'lease-lost expired', 'stopped', 'not-started'].includes(kind)) {
    const isBetween = life.isOver || life.isStopping || life.isStarting;
    if (!isBetween && !(life.wasStopped && kind === 'lease-lost stopped'))
      world.violate(`${life.name} ${what}: ${String(error)}, although it runs`);
    return false;
  }
  world.violate(`${life.name} ${what}: ${String(error)}`);
  return false;
}
