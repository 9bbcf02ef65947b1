import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import type { Numbered, Order, Report } from './protocol.js';

const PROGRAM = fileURLToPath(new URL('./replica.js', import.meta.url));
const LEASE_MS = 3_000;
const REPLACE_AFTER_MS = 1_000;
const THAW_EVERY_MS = 20;
const STOP_WITHIN_MS = 3_000;
const MOST_REPLICAS = 8;

export type ReplicaState = 'starting' | 'running' | 'frozen' | 'dead';

/** A seat, and the process that has it now. */
export interface Replica {
  readonly number: number;
  readonly state: ReplicaState;
  readonly pid: number | undefined;
  /** How many processes have had this seat. */
  readonly lives: number;
}

export interface Listener {
  /** A replica reported something. The replica is told that it was taken in when this resolves. */
  heard(replica: Replica, report: Report): Promise<void> | void;
  died(replica: Replica): void;
  tell(notice: string): void;
}

interface Seat extends Replica {
  state: ReplicaState;
  pid: number | undefined;
  lives: number;
  child: ChildProcess | undefined;
  /** Undefined iff it is not being thawed. */
  thawing: NodeJS.Timeout | undefined;
  /** Resolves when the process has ended. */
  ended: Promise<void>;
}

/** Runs replicas as processes, replaces those that die, and lets them be killed, frozen and thawed. */
export class Supervisor {
  readonly #path: string;
  readonly #listener: Listener;
  readonly #seats: Seat[] = [];
  readonly #replacements = new Set<NodeJS.Timeout>();
  #turn = 0;
  #isStopping = false;
  #whenChanged: (() => void)[] = [];

  constructor(path: string, listener: Listener) {
    this.#path = path;
    this.#listener = listener;
  }

  get replicas(): readonly Replica[] {
    return this.#seats;
  }

  /** Resolves when all are running. Rejects when one says that it cannot. */
  async start(size: number): Promise<void> {
    let refusal: string | undefined;
    for (let i = 0; i < size; i++) this.#addSeat((why) => (refusal = why));
    while (this.#seats.some(({ state }) => state === 'starting') && refusal === undefined) await this.#change();
    if (refusal !== undefined) throw new Error(refusal);
  }

  /** Starts one more. */
  add(): void {
    if (this.#seats.length >= MOST_REPLICAS) {
      this.#listener.tell(`${MOST_REPLICAS} replicas are enough`);
      return;
    }
    this.#addSeat();
    this.#listener.tell(`replica ${this.#seats.length} starts`);
  }

  /** The next replica in turn that takes messages, as a load balancer would choose. Waits for one if there is none. */
  async next(): Promise<Replica> {
    for (;;) {
      for (let i = 0; i < this.#seats.length; i++) {
        const seat = this.#seats[this.#turn++ % this.#seats.length];
        if (seat?.state === 'running') return seat;
      }
      await this.#change();
    }
  }

  send({ number }: Replica, order: Order): void {
    // A process that has ended is noticed by its end, not here.
    this.#seats[number - 1]?.child?.send(order, () => {});
  }

  /** Ends a replica without a word. A new one takes its seat after a moment. */
  kill(number: number): void {
    const seat = this.#find(number);
    if (seat === undefined) return;
    if (seat.state === 'dead') this.#listener.tell(`replica ${number} is dead already`);
    else seat.child?.kill('SIGKILL');
  }

  freeze(number: number): void {
    const seat = this.#find(number);
    if (seat === undefined) return;
    if (seat.state !== 'running') {
      this.#listener.tell(`replica ${number} is ${seat.state}`);
      return;
    }
    this.send(seat, { kind: 'freeze' });
    this.#become(seat, 'frozen');
    this.#listener.tell(
      `replica ${number} is frozen; what it has is taken over when its lease of ${LEASE_MS / 1000} s is over`,
    );
  }

  thaw(number: number): void {
    const seat = this.#find(number);
    if (seat === undefined) return;
    if (seat.state !== 'frozen') {
      this.#listener.tell(`replica ${number} is not frozen`);
      return;
    }
    // Until it says so: the first signal may come before it has stopped.
    seat.thawing ??= setInterval(() => seat.child?.kill('SIGCONT'), THAW_EVERY_MS);
  }

  /** Nobody would ever answer otherwise. */
  thawIfAllFrozen(): void {
    if (this.#seats.every(({ state }) => state === 'frozen')) this.#thawAll();
  }

  /** Lets every replica leave, kills those that do not, and resolves when all processes have ended. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    for (const timer of this.#replacements) clearTimeout(timer);
    this.#thawAll();
    for (const seat of this.#seats) this.send(seat, { kind: 'stop' });
    const timer = setTimeout(() => {
      for (const { child } of this.#seats) child?.kill('SIGKILL');
    }, STOP_WITHIN_MS);
    await Promise.all(this.#seats.map(({ ended }) => ended));
    clearTimeout(timer);
  }

  #addSeat(refused?: (why: string) => void): void {
    const number = this.#seats.length + 1;
    const seat: Seat = {
      number,
      state: 'dead',
      pid: undefined,
      lives: 0,
      child: undefined,
      thawing: undefined,
      ended: Promise.resolve(),
    };
    this.#seats.push(seat);
    this.#launch(seat, refused);
  }

  #launch(seat: Seat, refused: (why: string) => void = (why) => this.#listener.tell(why)): void {
    const child = fork(PROGRAM, [this.#path, `${seat.number}`, `${LEASE_MS}`], {
      // Nothing but answers goes to standard output.
      stdio: ['ignore', 2, 2, 'ipc'],
      // Where Node's own SQLite is used, every process would say that it is new.
      execArgv: ['--disable-warning=ExperimentalWarning'],
    });
    seat.child = child;
    seat.pid = child.pid;
    seat.lives++;
    child.on('message', ({ number, report }: Numbered) => {
      if (report.kind === 'ready') this.#ready(seat, child);
      if (report.kind === 'thawed') this.#thawed(seat);
      if (report.kind === 'failed') refused(`replica ${seat.number} cannot start: ${report.why}`);
      void this.#hear(seat, child, number, report);
    });
    seat.ended = new Promise((resolve) => {
      child.once('exit', () => {
        resolve();
        this.#died(seat);
      });
    });
    this.#become(seat, 'starting');
  }

  #ready(seat: Seat, child: ChildProcess): void {
    if (seat.child !== child || seat.state !== 'starting') return;
    this.#become(seat, 'running');
    if (seat.lives > 1) this.#listener.tell(`replica ${seat.number} is back, as a new process`);
  }

  #thawed(seat: Seat): void {
    clearInterval(seat.thawing);
    seat.thawing = undefined;
    this.#become(seat, 'running');
    this.#listener.tell(`replica ${seat.number} goes on`);
  }

  async #hear(seat: Seat, child: ChildProcess, number: number, report: Report): Promise<void> {
    await this.#listener.heard(seat, report);
    child.send({ kind: 'taken', number } satisfies Order, () => {});
  }

  #died(seat: Seat): void {
    clearInterval(seat.thawing);
    seat.thawing = undefined;
    this.#become(seat, 'dead');
    this.#listener.died(seat);
    if (this.#isStopping) return;
    this.#listener.tell(`replica ${seat.number} died; a new one takes its seat in ${REPLACE_AFTER_MS / 1000} s`);
    const timer = setTimeout(() => {
      this.#replacements.delete(timer);
      this.#launch(seat);
    }, REPLACE_AFTER_MS);
    this.#replacements.add(timer);
  }

  #thawAll(): void {
    for (const { number, state } of this.#seats) if (state === 'frozen') this.thaw(number);
  }

  #become(seat: Seat, state: ReplicaState): void {
    seat.state = state;
    for (const wake of this.#whenChanged.splice(0)) wake();
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#whenChanged.push(resolve));
  }

  #find(number: number): Seat | undefined {
    const seat = this.#seats[number - 1];
    if (seat === undefined) {
      this.#listener.tell(`there is no replica ${number}: give a number from 1 to ${this.#seats.length}`);
    }
    return seat;
  }
}
