import type {
  ApplyAnswer,
  BeatAnswer,
  Grant,
  JoinAnswer,
  MeshConfig,
  Op,
  ParkedView,
  Push,
  StoreView,
} from '../coordination/store.js';
import { FORMAT } from '../coordination/store.js';
import { timing } from '../coordination/timing.js';
import { StampPairs } from './stamp-pairs.js';
import type { OpenStore, StoreLab } from './store-lab.js';
import { describeStep, makeSteps, type Step, type StepOp } from './store-steps.js';

export interface Comparison {
  readonly reference: OpenStore;
  readonly subject: OpenStore;
  readonly seed: number;
  /** How many steps to make. */
  readonly steps: number;
  /** How far ages may be apart, where the subject's clock runs on by itself. Default 0. */
  readonly toleranceMs?: number;
  /** How many shorter lists are tried after a failure. Default 400. */
  readonly shrinkTries?: number;
}

export interface Difference {
  readonly seed: number;
  /** The shortest list found that still fails; the last step is the one answered differently. */
  readonly steps: readonly string[];
  readonly found: string;
}

/**
 * Makes the same random steps on two stores and compares every answer, push and look at the record, modulo the numbers of
 * the stamps. Undefined when they agree; else the shortest list of steps found on which they do not.
 */
export async function compareStores(comparison: Comparison): Promise<Difference | undefined> {
  const steps = makeSteps(comparison.seed, comparison.steps);
  const first = await play(comparison, steps);
  if (first === undefined) return undefined;
  let failing = { steps: steps.slice(0, first.at + 1), found: first.found };
  let tries = comparison.shrinkTries ?? 400;
  for (let size = Math.ceil(failing.steps.length / 2); size >= 1 && tries > 0; size = Math.floor(size / 2)) {
    for (let at = failing.steps.length - size; at >= 0 && tries > 0; at -= size) {
      tries -= 1;
      const shorter = [...failing.steps.slice(0, at), ...failing.steps.slice(at + size)];
      const again = await play(comparison, shorter);
      if (again !== undefined) failing = { steps: shorter.slice(0, again.at + 1), found: again.found };
      at = Math.min(at, failing.steps.length);
    }
  }
  return { seed: comparison.seed, steps: failing.steps.map(describeStep), found: failing.found };
}

/** `compareStores`, rejecting with one message that replays it. */
export async function demandSameAnswers(comparison: Comparison): Promise<void> {
  const difference = await compareStores(comparison);
  if (difference === undefined) return;
  const list = difference.steps.map((step, at) => `  ${at + 1}. ${step}`).join('\n');
  throw new Error(`The stores differ (seed ${difference.seed}): ${difference.found}, after these steps:\n${list}`);
}

async function play(
  comparison: Comparison,
  steps: readonly Step[],
): Promise<{ at: number; found: string } | undefined> {
  const reference = await comparison.reference();
  const subject = await comparison.subject();
  const pair = new Pair(reference, subject, comparison.toleranceMs ?? 0);
  try {
    for (const [at, step] of steps.entries()) {
      const found = await pair.make(step);
      if (found !== undefined) return { at, found };
    }
    return undefined;
  } finally {
    await reference.close();
    await subject.close();
  }
}

const LEASE_MS = 12_000;
const CONFIG: MeshConfig = { format: FORMAT, leaseMs: LEASE_MS, shards: 1 };

/** What one start of a replica knows, in the reference's stamps. */
interface Client {
  readonly replicaId: string;
  instance: string;
  firstEpoch: number;
  epoch: number;
  era: number;
  batch: number;
  beat: number;
  answered: number;
  heard: number;
  lastOps: readonly Op[];
  readonly tickets: Map<number, Grant>;
}

const REPLICA_IDS = ['a', 'b', 'c', 'd', 'a'];

/** Two stores under the same steps, and what the replicas have heard from the first. */
class Pair {
  readonly #reference: StoreLab;
  readonly #subject: StoreLab;
  readonly #toleranceMs: number;
  readonly #stamps = new StampPairs();
  readonly #clients: Client[] = REPLICA_IDS.map(newClient);
  readonly #pushes: { reference: Heard[]; subject: Heard[] } = { reference: [], subject: [] };
  #putBack: { reference: () => void | Promise<void>; subject: () => void | Promise<void> } | undefined;
  #starts = 0;
  #parked: readonly ParkedView[] = [];

  constructor(reference: StoreLab, subject: StoreLab, toleranceMs: number) {
    this.#reference = reference;
    this.#subject = subject;
    this.#toleranceMs = toleranceMs;
  }

  /** Makes one step on both. What differs, if anything. */
  async make(step: Step): Promise<string | undefined> {
    this.#stamps.nextStep();
    const found = (await this.#run(step)) ?? (await this.#comparePushes()) ?? (await this.#compareRecords());
    return found === undefined ? undefined : `${step.kind}: ${found}`;
  }

  #run(step: Step): Promise<string | undefined> {
    switch (step.kind) {
      case 'join':
        return this.#join(step);
      case 'apply':
        return this.#apply(step);
      case 'beat':
        return this.#beat(step);
      case 'leave':
        return this.#leave(step);
      case 'waiting':
        return this.#waiting(step);
      case 'pace':
        return this.#pace(step);
      case 'clock':
        return this.#onBoth('moveClock', (lab) => lab.moveClock?.(step.leases * LEASE_MS));
      case 'restart':
        return this.#onBoth('restart', (lab) => lab.restart?.());
      case 'wipe':
        return this.#onBoth('wipe', (lab) => lab.wipe?.());
      case 'rollback':
        return this.#rollback(step);
    }
  }

  async #join(step: Step & { kind: 'join' }): Promise<string | undefined> {
    const client = this.#client(step.client);
    if (step.isNewStart || client.instance === '') {
      this.#starts += 1;
      Object.assign(client, { ...newClient(client.replicaId), instance: `start-${this.#starts}` });
      client.tickets.clear();
      await this.#subscribe(client.instance);
    }
    const request = {
      replicaId: client.replicaId,
      instance: client.instance,
      firstEpoch: client.firstEpoch,
      config: { ...CONFIG, ...step.config },
      adopts: step.adopts,
      seen: this.#seen(step.seen),
    };
    const answers = await this.#ask<JoinAnswer>(
      (lab) => lab.store.join(request),
      (lab) => lab.store.join({ ...request, firstEpoch: this.#to(request.firstEpoch), seen: this.#to(request.seen) }),
    );
    const { reference } = answers;
    if (reference.kind === 'joined' && reference.epoch !== client.epoch) {
      Object.assign(client, {
        epoch: reference.epoch,
        era: reference.era,
        batch: 0,
        beat: 0,
        answered: 0,
        lastOps: [],
      });
      if (client.firstEpoch === 0) client.firstEpoch = reference.epoch;
      client.tickets.clear();
    }
    return this.#stamps.difference(reference, answers.subject);
  }

  async #subscribe(instance: string): Promise<void> {
    for (const side of ['reference', 'subject'] as const) {
      const lab = side === 'reference' ? this.#reference : this.#subject;
      await lab.store.subscribe(instance, (push) => this.#pushes[side].push({ instance, push }));
    }
  }

  async #apply(step: Step & { kind: 'apply' }): Promise<string | undefined> {
    const client = this.#client(step.client);
    const isRepeat = step.batch === 'repeat' && client.batch > 0;
    const ops = isRepeat ? client.lastOps : step.ops.map((op) => this.#op(client, op));
    const batch = { next: client.batch + 1, repeat: client.batch, older: client.batch - 1, ahead: client.batch + 3 }[
      step.batch
    ];
    const instance = step.isStranger ? 'stranger' : client.instance;
    const answers = await this.#ask<ApplyAnswer>(
      (lab) => lab.store.apply({ epoch: client.epoch, instance, batch, ops }),
      (lab) =>
        lab.store.apply({
          epoch: this.#to(client.epoch),
          instance,
          batch,
          ops: ops.map((op) => this.#translated(op)),
        }),
    );
    const { reference } = answers;
    if (reference.kind === 'applied') {
      client.batch = batch;
      client.lastOps = ops;
      if (!step.isAnswerLost) this.#hear(client, ops, reference);
    }
    return this.#stamps.difference(inOrder(reference), inOrder(answers.subject));
  }

  #hear(client: Client, ops: readonly Op[], answer: ApplyAnswer & { kind: 'applied' }): void {
    client.answered = client.batch;
    ops.forEach((op, at) => {
      const taken = answer.results[at];
      if (op.op === 'release') client.tickets.delete(op.seq);
      else if (taken !== null && taken !== undefined && takesPlace(op)) {
        client.tickets.set(taken.seq, { key: op.key, ...taken });
      }
    });
    for (const grant of [...answer.news.grants, ...answer.news.adopted]) this.#noteGrant(client, grant);
  }

  #noteGrant(client: Client, { key, seq, fence }: Grant): void {
    client.tickets.set(seq, { key, seq, fence });
  }

  #op(client: Client, op: StepOp): Op {
    if (op.op === 'replay' || op.op === 'drop') return this.#parkedOp(op);
    if (op.op !== 'release') return op;
    const { also, error, how } = op;
    const ticket = this.#ticket(op.isStranger ? this.#client(op.pick) : client, op.pick);
    const key = op.isOtherKey ? 'no-such-key' : ticket.key;
    return { op: 'release', key, seq: ticket.seq, how, error, also: also.map((pick) => this.#anyOf(key, pick)) };
  }

  #parkedOp(op: StepOp & { op: 'replay' | 'drop' }): Op {
    const { pick, ...rest } = op;
    const { key, seq } =
      this.#parked[pick % Math.max(1, this.#parked.length)] ?? this.#ticket(this.#client(pick), pick);
    return { ...rest, key, seq };
  }

  /** Some client's ticket of `key`. */
  #anyOf(key: string, pick: number): number {
    const tickets = this.#clients.flatMap((client) => [...client.tickets.values()]).filter((one) => one.key === key);
    return tickets[pick % Math.max(1, tickets.length)]?.seq ?? 3;
  }

  #translated(op: Op): Op {
    if (op.op === 'replay' || op.op === 'drop') return { ...op, seq: this.#to(op.seq) };
    if (op.op !== 'release') return op;
    return { ...op, seq: this.#to(op.seq), also: (op.also ?? []).map((seq) => this.#to(seq)) };
  }

  async #beat(step: Step & { kind: 'beat' }): Promise<string | undefined> {
    const client = this.#client(step.client);
    const { quarantineMs } = timing(LEASE_MS);
    if (!step.isOld) client.beat += 1;
    const request = {
      epoch: client.epoch,
      instance: client.instance,
      beat: client.beat,
      era: step.isOldEra ? 7 : client.era,
      watchedMs: { none: 0, almost: quarantineMs - 1, enough: quarantineMs }[step.watched],
      seen: this.#seen(step.seen),
      adopts: step.adopts,
      answered: client.answered,
      heard: client.heard,
      view: this.#view(client, step),
    };
    const answers = await this.#ask<BeatAnswer>(
      (lab) => lab.store.beat(request),
      (lab) =>
        lab.store.beat({
          ...request,
          epoch: this.#to(request.epoch),
          era: this.#stamps.translateEra(request.era),
          seen: this.#to(request.seen),
          heard: this.#to(request.heard),
          view: request.view.map(({ key, seq, fence }) => ({ key, seq: this.#to(seq), fence: this.#to(fence) })),
        }),
    );
    const { reference } = answers;
    if (reference.kind === 'alive' && !step.isAnswerLost) {
      client.era = reference.era;
      for (const { at } of reference.notes) client.heard = Math.max(client.heard, at);
      for (const ticket of reference.lost) client.tickets.delete(ticket.seq);
      for (const grant of [...reference.news.grants, ...reference.news.adopted]) this.#noteGrant(client, grant);
    }
    return this.#stamps.difference(inOrder(reference), inOrder(answers.subject));
  }

  /** What the client would say, and, where the step says so, what it should not. */
  #view(client: Client, step: Step & { kind: 'beat' }): Grant[] {
    const view = [...client.tickets.values()];
    if (step.forgets !== null) view.splice(step.forgets % Math.max(1, view.length), 1);
    for (const { what, pick } of step.lies) {
      const other = this.#ticket(this.#client(pick), pick);
      if (what === 'another') view.push(other);
      else if (what === 'unknown') view.push({ key: other.key, seq: 5, fence: 0 });
      else if (what === 'other-fence') view.push({ ...this.#ticket(client, pick), fence: 6 });
      else view.push({ ...this.#ticket(client, pick), fence: 0 });
    }
    const seen = new Set<number>();
    return view.filter(({ seq }) => !seen.has(seq) && seen.add(seq));
  }

  async #leave(step: Step & { kind: 'leave' }): Promise<string | undefined> {
    const { epoch, instance } = this.#client(step.client);
    await this.#reference.store.leave({ epoch, instance });
    await this.#subject.store.leave({ epoch: this.#to(epoch), instance });
    return undefined;
  }

  async #waiting(step: Step & { kind: 'waiting' }): Promise<string | undefined> {
    const { key, seq } = this.#ticket(this.#client(step.client), step.pick);
    const { limit } = step;
    const reference = await this.#reference.store.waiting({ key, seq, limit });
    const subject = await this.#subject.store.waiting({ key, seq: this.#to(seq), limit });
    return this.#stamps.difference(reference, subject);
  }

  async #pace({ name, costMs, burstMs, pauseMs }: Step & { kind: 'pace' }): Promise<string | undefined> {
    const request = { name, costMs, burstMs, pauseMs };
    const reference = await this.#reference.store.pace(request);
    const subject = await this.#subject.store.pace(request);
    const isNear = Math.abs(reference.waitMs - subject.waitMs) <= this.#toleranceMs;
    return this.#stamps.difference(reference, isNear ? reference : subject);
  }

  async #rollback(step: Step & { kind: 'rollback' }): Promise<string | undefined> {
    if (this.#reference.snapshot === undefined || this.#subject.snapshot === undefined) return undefined;
    if (step.isCopy || this.#putBack === undefined) {
      this.#putBack = { reference: await this.#reference.snapshot(), subject: await this.#subject.snapshot() };
    } else {
      await this.#putBack.reference();
      await this.#putBack.subject();
    }
    return undefined;
  }

  async #onBoth(what: 'moveClock' | 'restart' | 'wipe', run: (lab: StoreLab) => unknown): Promise<undefined> {
    if (this.#reference[what] === undefined || this.#subject[what] === undefined) return;
    await run(this.#reference);
    await run(this.#subject);
  }

  async #comparePushes(): Promise<string | undefined> {
    await this.#reference.arrived?.();
    await this.#subject.arrived?.();
    const reference = this.#pushes.reference.splice(0).sort(byReceiver);
    const subject = this.#pushes.subject.splice(0).sort(byReceiver);
    return this.#stamps.difference(reference, subject, 'pushes');
  }

  async #compareRecords(): Promise<string | undefined> {
    const reference = await this.#reference.store.inspect();
    const subject = await this.#subject.store.inspect();
    this.#parked = reference.parked;
    return this.#stamps.difference(
      tidy(reference, reference, 0),
      tidy(subject, reference, this.#toleranceMs),
      'record',
    );
  }

  #client(at: number): Client {
    const client = this.#clients[at % this.#clients.length];
    if (client === undefined) throw new Error('No client.');
    return client;
  }

  #ticket(client: Client, pick: number): Grant {
    const tickets = [...client.tickets.values()];
    return tickets[pick % Math.max(1, tickets.length)] ?? { key: 'k0', seq: 4, fence: 0 };
  }

  #seen(beyond: number): number {
    if (beyond > 0 && this.#stamps.greatest > 0) this.#stamps.raise(beyond);
    return beyond < 0 ? 0 : this.#stamps.greatest;
  }

  #to(reference: number): number {
    return this.#stamps.translate(reference);
  }

  async #ask<T>(
    reference: (lab: StoreLab) => Promise<T>,
    subject: (lab: StoreLab) => Promise<T>,
  ): Promise<{ reference: T; subject: T }> {
    // The request to the subject is made before the reference's answer brings new stamps.
    const answer = subject(this.#subject);
    return { reference: await reference(this.#reference), subject: await answer };
  }
}

interface Heard {
  readonly instance: string;
  readonly push: Push;
}

function newClient(replicaId: string): Client {
  return {
    replicaId,
    instance: '',
    firstEpoch: 0,
    epoch: 0,
    era: 0,
    batch: 0,
    beat: 0,
    answered: 0,
    heard: 0,
    lastOps: [],
    tickets: new Map(),
  };
}

function takesPlace({ op }: Op): boolean {
  return op === 'reserve' || op === 'try' || op === 'accept';
}

/** The order of the news of one answer is free, but for the results of the operations. */
function inOrder<T extends ApplyAnswer | BeatAnswer>(answer: T): T {
  if (!('news' in answer)) return answer;
  const { grants, adopted, parked } = answer.news;
  const news = { grants: bySeq(grants), adopted: bySeq(adopted), parked: byText(parked) };
  return 'lost' in answer ? { ...answer, news, lost: bySeq(answer.lost) } : { ...answer, news };
}

function bySeq<T extends { seq: number }>(list: readonly T[]): T[] {
  return [...list].sort((a, b) => a.seq - b.seq);
}

function byText<T>(list: readonly T[]): T[] {
  return [...list].sort((a, b) => compare(JSON.stringify(a), JSON.stringify(b)));
}

function byReceiver(a: Heard, b: Heard): number {
  const keyOf = (heard: Heard): string =>
    `${heard.instance} ${heard.push.kind} ${heard.push.kind === 'grant' ? heard.push.key : ''}`;
  return compare(keyOf(a), keyOf(b));
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** A record's view with everything in a fixed order, and ages taken from `reference` where they are close to it. */
function tidy(view: StoreView, reference: StoreView, toleranceMs: number): StoreView {
  const ages = [...reference.replicas].sort((a, b) => a.epoch - b.epoch).map((replica) => replica.beatAgeMs);
  return {
    ...view,
    replicas: [...view.replicas]
      .sort((a, b) => a.epoch - b.epoch)
      .map((replica, at) => {
        const age = ages[at] ?? Number.NaN;
        return Math.abs(replica.beatAgeMs - age) <= toleranceMs ? { ...replica, beatAgeMs: age } : replica;
      }),
    queues: [...view.queues].sort((a, b) => compare(a.key, b.key)),
    // Where the clocks drift apart, one of them may be over already.
    paces: toleranceMs > 0 ? reference.paces : view.paces,
    parked: bySeq(view.parked),
  };
}
