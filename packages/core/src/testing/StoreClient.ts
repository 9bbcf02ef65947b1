import {
  type ApplyAnswer,
  type BeatAnswer,
  type BeatRequest,
  FORMAT,
  type Grant,
  type JoinAnswer,
  type JoinRequest,
  type MeshConfig,
  type Op,
  type Push,
  type ReleaseHow,
  type Taken,
} from '../coordination/store.js';
import { assertEqual } from './assertions.js';
import type { StoreLab } from './store-lab.js';

/** The lease of the meshes that store tests set up. */
export const LEASE_MS = 12_000;
export const CONFIG: MeshConfig = { format: FORMAT, leaseMs: LEASE_MS, shards: 1 };

type Applied = ApplyAnswer & { kind: 'applied' };
type Alive = BeatAnswer & { kind: 'alive' };

let starts = 0;

/** One replica as the store sees it: makes the steps of the protocol by hand, one at a time. */
export class StoreClient {
  readonly lab: StoreLab;
  readonly replicaId: string;
  readonly instance: string;
  readonly pushes: Push[] = [];
  adopts = false;
  firstEpoch = 0;
  epoch = 0;
  era = 0;
  batch = 0;
  beatNumber = 0;
  /** The greatest note it has. */
  heardUpTo = 0;
  seen = 0;

  constructor(lab: StoreLab, replicaId: string) {
    starts += 1;
    this.lab = lab;
    this.replicaId = replicaId;
    this.instance = `instance-${starts}`;
  }

  async join(changes: Partial<JoinRequest> = {}): Promise<JoinAnswer> {
    const { adopts, firstEpoch, instance, replicaId, seen } = this;
    const answer = await this.lab.store.join({
      replicaId,
      instance,
      firstEpoch,
      config: CONFIG,
      adopts,
      seen,
      ...changes,
    });
    if (answer.kind === 'joined' && answer.epoch !== this.epoch) {
      Object.assign(this, { epoch: answer.epoch, era: answer.era, batch: 0, beatNumber: 0 });
      if (this.firstEpoch === 0) this.firstEpoch = answer.epoch;
      this.#note(answer.epoch);
    }
    return answer;
  }

  /** The next batch, which must be applied. */
  async apply(...ops: Op[]): Promise<Applied> {
    this.batch += 1;
    const answer = await this.applyAs(this.batch, ...ops);
    if (answer.kind !== 'applied') throw new Error(`The batch was answered ${answer.kind}.`);
    for (const taken of answer.results) if (taken !== null) this.#note(Math.max(taken.seq, taken.fence));
    return answer;
  }

  /** A batch of any number, and its answer, whatever it is. */
  applyAs(batch: number, ...ops: Op[]): Promise<ApplyAnswer> {
    return this.lab.store.apply({ epoch: this.epoch, instance: this.instance, batch, ops });
  }

  async reserve(key: string): Promise<Taken> {
    return only(await this.apply({ op: 'reserve', key }));
  }

  async accept(
    key: string,
    id: string | null,
    changes: { maxAttempts?: number; dedupeMs?: number } = {},
  ): Promise<Taken | null> {
    const { maxAttempts = 5, dedupeMs = 86_400_000 } = changes;
    const op: Op = { op: 'accept', key, id, body: `body of ${id ?? 'nobody'}`, maxAttempts, dedupeMs };
    return (await this.apply(op)).results[0] ?? null;
  }

  release(
    key: string,
    seq: number,
    how: ReleaseHow = 'done',
    more: { error?: string; also?: readonly number[] } = {},
  ): Promise<Applied> {
    return this.apply({ op: 'release', key, seq, how, ...more });
  }

  /** A heartbeat with this view, which must be answered `alive`. */
  async beat(view: readonly Grant[] = [], changes: Partial<BeatRequest> = {}): Promise<Alive> {
    const answer = await this.beatAnyhow(view, changes);
    if (answer.kind !== 'alive') throw new Error(`The heartbeat was answered ${answer.kind}.`);
    this.era = answer.era;
    for (const { fence } of [...answer.news.grants, ...answer.news.adopted]) this.#note(fence);
    for (const { at } of answer.notes) this.heardUpTo = Math.max(this.heardUpTo, at);
    return answer;
  }

  beatAnyhow(view: readonly Grant[] = [], changes: Partial<BeatRequest> = {}): Promise<BeatAnswer> {
    this.beatNumber += 1;
    const { adopts, batch: answered, beatNumber, epoch, era, heardUpTo: heard, instance, seen } = this;
    const own = { epoch, instance, beat: beatNumber, era, watchedMs: 0, seen, adopts, answered, heard, view };
    return this.lab.store.beat({ ...own, ...changes });
  }

  leave(): Promise<void> {
    return this.lab.store.leave({ epoch: this.epoch, instance: this.instance });
  }

  /** The pushes since the last call, but for pings. */
  async heard(): Promise<Push[]> {
    await this.lab.arrived?.();
    return this.pushes.splice(0).filter((push) => push.kind !== 'ping');
  }

  #note(stamp: number): void {
    this.seen = Math.max(this.seen, stamp);
  }
}

/** A replica that has joined, and hears pushes. */
export async function joined(
  lab: StoreLab,
  replicaId: string,
  options: { adopts?: boolean } = {},
): Promise<StoreClient> {
  const client = new StoreClient(lab, replicaId);
  client.adopts = options.adopts ?? false;
  await lab.store.subscribe(client.instance, (push) => client.pushes.push(push));
  assertEqual((await client.join()).kind, 'joined');
  return client;
}

function only(answer: Applied): Taken {
  const [taken] = answer.results;
  if (taken === null || taken === undefined) throw new Error('No place was given.');
  return taken;
}

/** Lets time pass while `clients` beat on, so that they stay alive and become witnesses. */
export async function beatOn(
  lab: StoreLab,
  clients: readonly StoreClient[],
  forMs: number,
  view: (client: StoreClient) => readonly Grant[] = () => [],
): Promise<void> {
  const stepMs = LEASE_MS / 6;
  for (let passed = 0; passed < forMs; passed += stepMs) {
    await lab.moveClock?.(Math.min(stepMs, forMs - passed));
    for (const client of clients) await client.beat(view(client));
  }
}
