import { Bot, CoordinationUnavailableError } from '@botmesh/core';
import type { Intake } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh } from '@botmesh/core/testing';
import { type Memory, teach } from './bot.js';
import type { Platform } from './Platform.js';

const LEASE_MS = 3_000;
const REPLACE_AFTER_MS = 1_000;

interface Replica {
  readonly number: number;
  readonly bot: Bot<Memory>;
  readonly coordinator: MemoryCoordinator;
  readonly provider: ReturnType<Platform['connect']>;
  state: 'running' | 'frozen' | 'crashed';
  /** Called when it is thawed. */
  whenThawed: (() => void)[];
  /** Called when it is frozen: for each line that is being handed to it. */
  readonly whenFrozen: Set<() => void>;
}

/** A few replicas of one bot, and what may befall them. */
export class Cluster {
  readonly #mesh = new MemoryMesh();
  readonly #platform: Platform;
  readonly #tell: (notice: string) => void;
  readonly #replicas: Replica[] = [];
  readonly #replacements = new Set<NodeJS.Timeout>();
  #turn = 0;
  /** Not empty iff a line waits because no replica takes any. */
  #whenRunning: (() => void)[] = [];
  #whenOut: (() => void)[] = [];

  constructor(platform: Platform, tell: (notice: string) => void) {
    this.#platform = platform;
    this.#tell = tell;
  }

  async start(size: number): Promise<void> {
    for (let number = 1; number <= size; number++) this.#replicas.push(await this.#launch(number));
  }

  async stop(): Promise<void> {
    for (const timer of this.#replacements) clearTimeout(timer);
    this.#thawAll();
    await Promise.all(this.#replicas.map(({ bot }) => bot.stop()));
  }

  /** The next replica in turn that takes messages, as a load balancer would choose. Waits for one if there is none. */
  async next(): Promise<Intake> {
    for (;;) {
      for (let i = 0; i < this.#replicas.length; i++) {
        const replica = this.#replicas[this.#turn++ % this.#replicas.length];
        const intake = replica?.provider.intake;
        if (replica?.state === 'running' && intake !== undefined)
          return (message) => handOver(replica, () => intake(message));
      }
      await new Promise<void>((resolve) => {
        if (this.#whenRunning.push(resolve) === 1) this.#tell('no replica runs: what you write waits until one does');
        for (const out of this.#whenOut.splice(0)) out();
      });
    }
  }

  /** Resolves when a line has to wait because no replica takes any. */
  outOfReplicas(): Promise<void> {
    if (this.#whenRunning.length > 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenOut.push(resolve));
  }

  /** Ends a replica without a word. A new one takes its seat after a moment. */
  crash(number: number): void {
    const replica = this.#find(number);
    if (replica === undefined) return;
    if (replica.state === 'crashed') {
      this.#tell(`replica ${number} has crashed already`);
      return;
    }
    replica.state = 'crashed';
    replica.coordinator.crash();
    this.#tell(`replica ${number} crashed; a new one takes its seat in ${REPLACE_AFTER_MS / 1000} s`);
    const timer = setTimeout(() => {
      this.#replacements.delete(timer);
      void this.#replace(number);
    }, REPLACE_AFTER_MS);
    this.#replacements.add(timer);
  }

  freeze(number: number): void {
    const replica = this.#find(number);
    if (replica === undefined) return;
    if (replica.state !== 'running') {
      this.#tell(`replica ${number} is ${replica.state}`);
      return;
    }
    replica.state = 'frozen';
    this.#mesh.freeze(replica.coordinator);
    for (const giveUp of replica.whenFrozen) giveUp();
    this.#tell(`replica ${number} is frozen; what it has is taken over when its lease of ${LEASE_MS / 1000} s is over`);
  }

  thaw(number: number): void {
    const replica = this.#find(number);
    if (replica === undefined) return;
    if (replica.state !== 'frozen') {
      this.#tell(`replica ${number} is not frozen`);
      return;
    }
    replica.state = 'running';
    this.#mesh.thaw(replica.coordinator);
    this.#tell(`replica ${number} goes on`);
    for (const resolve of replica.whenThawed.splice(0)) resolve();
    this.#announce();
  }

  /** Nobody would ever answer otherwise. */
  thawIfAllFrozen(): void {
    if (this.#replicas.every(({ state }) => state === 'frozen')) this.#thawAll();
  }

  async status(): Promise<void> {
    const [view] = await this.#mesh.inspect();
    const onRecord = new Map(view?.replicas.map((row) => [row.replicaId, row]));
    for (const { number, state } of this.#replicas) {
      const row = onRecord.get(`${number}`);
      const word = row === undefined ? 'counts as dead' : `epoch ${row.epoch}, ${row.tickets} messages`;
      this.#tell(`replica ${number}: ${state}, ${word}`);
    }
    for (const { key, head, waiting } of view?.queues ?? []) {
      const holder = view?.replicas.find(({ epoch }) => epoch === head.epoch)?.replicaId;
      this.#tell(
        `chat ${key.replace(/^c:/, '')}: ${holder === undefined ? 'held by nobody' : `held by replica ${holder}`}, ${waiting} waiting`,
      );
    }
  }

  async #launch(number: number): Promise<Replica> {
    const provider = this.#platform.connect();
    const coordinator = new MemoryCoordinator({ mesh: this.#mesh, replicaId: `${number}`, leaseMs: LEASE_MS });
    const bot = new Bot<Memory>({ provider, coordinator, log: this.#tell });
    const replica: Replica = {
      number,
      bot,
      coordinator,
      provider,
      state: 'running',
      whenThawed: [],
      whenFrozen: new Set(),
    };
    bot.use(async (ctx, next) => {
      await next();
      this.#platform.settled(ctx.message.id);
    });
    teach(bot, (ms, signal) => {
      this.#tell(`replica ${number} is at work on it`);
      return sleep(replica, ms, signal);
    });
    coordinator.on('parked', ({ id }) => this.#platform.settled(id));
    await bot.start();
    return replica;
  }

  async #replace(number: number): Promise<void> {
    this.#replicas[number - 1] = await this.#launch(number);
    this.#tell(`replica ${number} is back, as a new one`);
    this.#announce();
  }

  #thawAll(): void {
    for (const { number, state } of this.#replicas) if (state === 'frozen') this.thaw(number);
  }

  #announce(): void {
    for (const resolve of this.#whenRunning.splice(0)) resolve();
  }

  #find(number: number): Replica | undefined {
    const replica = this.#replicas[number - 1];
    if (replica === undefined)
      this.#tell(`there is no replica ${number}: give a number from 1 to ${this.#replicas.length}`);
    return replica;
  }
}

/** Gives up on a replica that freezes meanwhile, as a load balancer does on a server that does not answer. */
function handOver<T>(replica: Replica, take: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void =>
      reject(new CoordinationUnavailableError('unavailable', `replica ${replica.number} does not answer`));
    // It may have been frozen since it was chosen.
    if (replica.state === 'frozen') {
      giveUp();
      return;
    }
    replica.whenFrozen.add(giveUp);
    void take()
      .then(resolve, reject)
      .finally(() => replica.whenFrozen.delete(giveUp));
  });
}

/** Ends early when the turn is lost, and not while the replica is frozen: then nothing in its process would run. */
async function sleep(replica: Replica, ms: number, signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
  while (replica.state === 'frozen') await new Promise<void>((resolve) => replica.whenThawed.push(resolve));
  signal.throwIfAborted();
}
