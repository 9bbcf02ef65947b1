// Accounts that replicas share, under deaths, departures, cuts and freezes, on a virtual clock: never two holders, and fair.
import { MemoryStateStore } from '@botmesh/core';
import { Accounts, type Coordinator } from '@botmesh/core/spi';
import { MemoryCoordinator, MemoryMesh, seededRandom, VirtualClock } from '@botmesh/core/testing';
import { expect, test } from 'vitest';

const LEASE_MS = 3_000;
const BALANCE_MS = 500;
const STEPS = 12;
const MOST_REPLICAS = 5;
const CLOSING_MS = 200;

interface Replica {
  readonly name: number;
  readonly coordinator: MemoryCoordinator;
  readonly accounts: Accounts;
  /** Takes its connections with it. */
  kill(): void;
}

class Simulation {
  readonly clock: VirtualClock;
  readonly #mesh: MemoryMesh;
  readonly #store = new MemoryStateStore();
  readonly #random: () => number;
  readonly #names: string[];
  readonly #replicas: Replica[] = [];
  /** The connections there are. */
  readonly #holders = new Map<string, Replica['name']>();
  readonly errors: unknown[] = [];
  conflicts = 0;
  connections = 0;
  #made = 0;

  constructor(seed: number) {
    this.clock = new VirtualClock({ seed });
    this.#mesh = new MemoryMesh({ clock: this.clock, seed });
    this.#random = seededRandom(seed);
    this.#names = Array.from({ length: 1 + Math.floor(this.#random() * 12) }, (_, n) => `account ${n}`);
  }

  async play(): Promise<void> {
    await this.#join();
    for (let step = 0; step < STEPS; step++) {
      await this.#harm();
      await this.clock.sleep(this.#random() * 2 * LEASE_MS);
    }
    await this.#becomeFair();
    await this.#stayFair();
    await Promise.all(this.#replicas.map(({ accounts }) => accounts.stop()));
    await Promise.all(this.#replicas.map(({ coordinator }) => coordinator.stop()));
  }

  async #join(): Promise<void> {
    const name = this.#made++;
    const coordinator = new MemoryCoordinator({ mesh: this.#mesh, leaseMs: LEASE_MS });
    const { clock } = this.#mesh.rigOf(coordinator);
    let isDead = false;
    const accounts = new Accounts({
      coordinator: coordinator as Coordinator,
      store: this.#store,
      clock,
      name: 'lines',
      accounts: this.#names,
      balanceMs: BALANCE_MS,
      random: this.#random,
      failed: (error) => this.errors.push(error),
      serve: async (account, lead, letGo) => {
        const over = AbortSignal.any([lead.signal, letGo]);
        lead.assertHeld();
        if (this.#holders.has(account)) this.conflicts += 1;
        this.#holders.set(account, name);
        this.connections += 1;
        if (!over.aborted) {
          await new Promise<void>((resolve) => over.addEventListener('abort', () => resolve(), { once: true }));
        }
        // In good order a connection takes its time to close.
        if (!lead.signal.aborted) {
          await new Promise<void>((resolve) => {
            lead.signal.addEventListener('abort', () => resolve(), { once: true });
            clock.setTimer(CLOSING_MS, resolve);
          });
        }
        if (!isDead) this.#close(account, name);
        return undefined;
      },
    });
    const kill = (): void => {
      isDead = true;
      for (const account of this.#names) this.#close(account, name);
    };
    await coordinator.start();
    accounts.start();
    this.#replicas.push({ name, coordinator, accounts, kill });
  }

  #close(account: string, name: number): void {
    if (this.#holders.get(account) === name) this.#holders.delete(account);
  }

  async #harm(): Promise<void> {
    const kind = this.#random();
    if (kind < 0.35 || this.#replicas.length === 1) {
      if (this.#replicas.length < MOST_REPLICAS) await this.#join();
      return;
    }
    const at = Math.floor(this.#random() * this.#replicas.length);
    const replica = this.#replicas[at]!;
    if (kind < 0.55) {
      this.#replicas.splice(at, 1);
      replica.coordinator.crash();
      replica.kill();
    } else if (kind < 0.75) {
      this.#replicas.splice(at, 1);
      await replica.accounts.stop();
      await replica.coordinator.stop();
    } else if (kind < 0.9) {
      this.#mesh.cut(replica.coordinator);
      await this.clock.sleep(this.#random() * 2 * LEASE_MS);
      this.#mesh.heal(replica.coordinator);
    } else {
      // Its connections die with the machine that stands still, for nobody hears of them then.
      this.#mesh.freeze(replica.coordinator);
      for (const account of this.#names) this.#close(account, replica.name);
      await this.clock.sleep(2 * LEASE_MS);
      this.#mesh.thaw(replica.coordinator);
    }
  }

  /** Within a lease, and three looks and the time to close for each account that may have to move. */
  async #becomeFair(): Promise<void> {
    const limitMs = 2 * LEASE_MS + 6 * BALANCE_MS + this.#names.length * (4 * BALANCE_MS + CLOSING_MS);
    const untilMs = this.clock.monotonicMs() + limitMs;
    while (!this.#isFair() && this.clock.monotonicMs() < untilMs) await this.clock.sleep(BALANCE_MS / 5);
    expect(this.#shares(), `shares of ${this.#names.length} accounts after ${limitMs} ms`).toSatisfy(() => this.#isFair());
  }

  /** Nothing moves any more. */
  async #stayFair(): Promise<void> {
    await this.clock.sleep(4 * BALANCE_MS);
    const before = this.connections;
    await this.clock.sleep(20 * BALANCE_MS);
    expect(this.connections - before, 'connections made once all was fair').toBe(0);
    expect(this.#isFair()).toBe(true);
  }

  #isFair(): boolean {
    const share = this.#names.length / this.#replicas.length;
    const isWithin = (count: number): boolean => count >= Math.floor(share) && count <= Math.ceil(share);
    return this.#holders.size === this.#names.length && this.#shares().every(isWithin);
  }

  #shares(): number[] {
    return this.#replicas.map(({ name }) => [...this.#holders.values()].filter((holder) => holder === name).length);
  }
}

test.each([...Array(150).keys()])('accounts have one holder each and are shared fairly: seed %i', async (seed) => {
  const simulation = new Simulation(seed);

  await simulation.clock.run(() => simulation.play());

  expect(simulation.conflicts).toBe(0);
  expect(simulation.errors).toEqual([]);
});
