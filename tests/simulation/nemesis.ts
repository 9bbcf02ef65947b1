import type { MeshSnapshot } from '@botmesh/core/testing';
import { Life } from './Life.js';
import type { World } from './World.js';
import { adopt, work } from './workload.js';

const REPLICAS = 5;
const WORKERS = 3;
const STEPS_MS = [3000, 5000, 12_000, 60_000];
const REQUESTS = ['join', 'apply', 'beat', 'leave', 'subscribe'] as const;
const PUSHES = ['grant', 'look', 'replaced', 'ping'] as const;

type Group = 'pause' | 'cut' | 'loss' | 'death' | 'twin' | 'stop' | 'clock' | 'server' | 'wall';
const GROUPS: readonly Group[] = ['pause', 'cut', 'loss', 'death', 'twin', 'stop', 'clock', 'server', 'wall'];

/** Does harm, of a few kinds a run, until its time is over; then undoes what can be undone. */
export class Nemesis {
  readonly #world: World;
  readonly #groups: readonly Group[];
  readonly #slots: Life[] = [];
  /** Every process there ever was. */
  readonly lives: Life[] = [];
  /** Data is lost in this run, so the server's clock is set back a little only: see the limits of R8. */
  readonly #losesData: boolean;
  #steppedBack = false;
  /** The greatest stamp there was when data was lost so far. */
  #newest = 0;
  #snapshot: { readonly copy: MeshSnapshot; readonly stamp: number; readonly atMs: number } | undefined;

  constructor(world: World) {
    this.#world = world;
    const groups = new Set<Group>();
    const wanted = 1 + world.below(4);
    while (groups.size < wanted) groups.add(world.oneOf(GROUPS));
    this.#groups = [...groups];
    this.#losesData = groups.has('server') && world.chance(0.8);
    world.note(`groups: ${this.#groups.join(', ')}`);
  }

  async begin(): Promise<void> {
    for (let slot = 0; slot < REPLICAS; slot++) {
      const started = this.#bear(slot, `r${slot}`);
      if (this.#world.chance(0.5)) await started;
    }
  }

  /** Harms for `forMs`, then heals everything. */
  async rage(forMs: number): Promise<void> {
    const world = this.#world;
    const untilMs = world.now() + forMs;
    const running: Promise<void>[] = [];
    while (world.now() < untilMs) {
      await world.clock.sleep(world.between(0, world.times.leaseMs / 2));
      if (world.now() >= untilMs) break;
      const leftMs = untilMs - world.now();
      running.push(this.#harm(world.oneOf(this.#groups), leftMs));
      world.sample();
    }
    await Promise.all(running);
    world.note('all faults are over');
  }

  async #harm(group: Group, leftMs: number): Promise<void> {
    switch (group) {
      case 'pause':
        return this.#pause(leftMs);
      case 'cut':
        return this.#cut(leftMs);
      case 'loss':
        return this.#lossy(leftMs);
      case 'death':
        return this.#death();
      case 'twin':
        return this.#twin();
      case 'stop':
        return this.#stop();
      case 'clock':
        return this.#stepServer();
      case 'server':
        return this.#changeServer();
      case 'wall':
        return this.#stepWall();
    }
  }

  /** A life to harm: one that holds something, if it can be found. */
  #victim(): Life {
    const world = this.#world;
    const holding = this.#slots.filter((life) => world.holds(life));
    return holding.length > 0 && world.chance(0.7) ? world.oneOf(holding) : world.oneOf(this.#slots);
  }

  #slotOf(life: Life): number {
    return this.#slots.indexOf(life);
  }

  async #bear(slot: number, replicaId: string): Promise<void> {
    const world = this.#world;
    const adopts = slot === 0 || world.chance(0.75);
    const life = new Life(world, { replicaId, number: this.lives.length, adopts, job: { work, adopt } });
    this.lives.push(life);
    this.#slots[slot] = life;
    if (this.#groups.includes('loss')) this.#strikeStart(life);
    await Promise.race([life.start(WORKERS), life.died]);
  }

  // ── Pauses and cuts ────────────────────────────────────────────────────────────────────────────────────────────────

  async #pause(leftMs: number): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    if (life.isOver || life.isFrozen) return;
    const { beatMs, trustMs, leaseMs } = world.times;
    const [name, least, most] = world.oneOf([
      ['freeze short of the trust', 1, trustMs - 2 * beatMs],
      ['freeze past the trust', trustMs, leaseMs],
      ['freeze past the lease', leaseMs + beatMs, 2 * leaseMs],
    ] as const);
    const ms = Math.min(world.between(least, most), leftMs);
    // A suspended host whose wall clock is set back hides time from both clocks: beyond what is promised.
    const how = world.chance(0.3) && !this.#groups.includes('wall') ? 'suspend' : 'freeze';
    if (how === 'suspend') world.count('suspend');
    world.count(name);
    if (name === 'freeze past the lease' && world.holds(life)) world.count('freeze past the lease while holding');
    life.suffered.isolation = true;
    world.note(`${how} ${life.name} for ${ms.toFixed(0)}`);
    life.freeze(how);
    await world.clock.sleep(ms);
    world.note(`thaw ${life.name}`);
    life.thaw(world.chance(0.5) ? 'arrivals' : 'timers');
    if (world.chance(0.5)) world.sample();
  }

  async #cut(leftMs: number): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    if (life.isOver) return;
    const ms = Math.min(world.between(500, 1.6 * world.times.leaseMs), leftMs);
    life.suffered.isolation = true;
    if (world.chance(0.25)) {
      world.count('delay');
      world.note(`delay ${life.name} for ${ms.toFixed(0)}`);
      world.mesh.delay(life.coordinator, { minMs: 1, maxMs: world.oneOf([20, 400, 2500]) });
      await world.clock.sleep(ms);
      world.mesh.delay(life.coordinator, { minMs: 0, maxMs: 0 });
      return;
    }
    const way = world.oneOf(['requests', 'answers', 'pushes', 'all'] as const);
    world.count(`cut ${way}`);
    world.note(`cut ${way} of ${life.name} for ${ms.toFixed(0)}`);
    world.mesh.cut(life.coordinator, way);
    await world.clock.sleep(ms);
    world.note(`heal ${life.name}`);
    world.mesh.heal(life.coordinator, way);
  }

  // ── Losses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  async #lossy(leftMs: number): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    if (life.isOver) return;
    const { mesh } = world;
    const ms = Math.min(world.between(2000, world.times.leaseMs), leftMs);
    const before = structuredClone(mesh.counts(life.coordinator));
    const kind = world.oneOf(REQUESTS);
    const push = world.oneOf(PUSHES);
    const what = world.oneOf(['lose', 'lose some', 'repeat', 'drop', 'drop all'] as const);
    world.note(`${what} ${kind}/${push} of ${life.name} for ${ms.toFixed(0)}`);
    if (what === 'lose' || what === 'lose some') life.suffered.isolation = true;
    if (what === 'lose') mesh.loseAnswers(life.coordinator, { next: 1 + world.below(3), of: kind });
    if (what === 'lose some') mesh.loseAnswers(life.coordinator, 0.3);
    if (what === 'repeat') mesh.repeatRequests(life.coordinator, world.oneOf([1, 0.4]), world.oneOf([0, 100, 3000]));
    if (what === 'drop') mesh.dropPushes(life.coordinator, { next: 1 + world.below(4), of: push });
    if (what === 'drop all') mesh.dropPushes(life.coordinator, 1);
    await world.clock.sleep(ms);
    const after = mesh.counts(life.coordinator);
    if (what === 'lose' && after.requests[kind] > before.requests[kind]) world.count(`lost answer: ${kind}`);
    for (const each of REQUESTS) {
      if (what === 'repeat' && after.requests[each] > before.requests[each] + 3) world.count(`repeated: ${each}`);
    }
    for (const each of PUSHES) {
      const isHit = what === 'drop all' || (what === 'drop' && each === push);
      if (isHit && after.pushes[each] > before.pushes[each]) world.count(`dropped push: ${each}`);
    }
    mesh.loseAnswers(life.coordinator, 0);
    mesh.repeatRequests(life.coordinator, 0);
    mesh.dropPushes(life.coordinator, 0);
  }

  /** Joins, leaves and subscriptions are rare: their answers are lost, and they are repeated, where they occur. */
  #strikeStart(life: Life): void {
    const { mesh } = this.#world;
    const kind = this.#world.oneOf(['join', 'subscribe'] as const);
    if (this.#world.chance(0.5)) {
      life.suffered.isolation = true;
      this.#world.count(`lost answer: ${kind}`);
      mesh.loseAnswers(life.coordinator, { next: 1, of: kind });
    } else {
      this.#world.count(`repeated: ${kind}`);
      mesh.repeatRequests(life.coordinator, { next: 1, of: kind }, this.#world.oneOf([0, 50, 3000]));
    }
  }

  #strikeStop(life: Life): void {
    const { mesh } = this.#world;
    if (this.#world.chance(0.5)) {
      this.#world.count('lost answer: leave');
      mesh.loseAnswers(life.coordinator, { next: 1, of: 'leave' });
    } else {
      this.#world.count('repeated: leave');
      mesh.repeatRequests(life.coordinator, { next: 1, of: 'leave' }, this.#world.oneOf([0, 50, 3000]));
    }
  }

  // ── Ends and new starts ────────────────────────────────────────────────────────────────────────────────────────────

  async #death(): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    if (life.isOver || life.isFrozen) return;
    const how = world.oneOf(['crash', 'silent death'] as const);
    world.count(how);
    if (world.holds(life)) world.count(`${how} while holding`);
    world.note(`${how} of ${life.name}`);
    if (how === 'crash') life.crash();
    else life.die();
    const slot = this.#slotOf(life);
    await world.clock.sleep(world.between(0, 1.5 * world.times.leaseMs));
    if (this.#slots[slot] !== life) return;
    world.count('start again with the same id');
    await this.#bear(slot, life.replicaId);
  }

  /** Started a second time while the first one lives. */
  async #twin(): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    const slot = this.#slotOf(life);
    if (life.isOver || slot === -1) return;
    if (world.chance(0.15)) world.mesh.dropPushes(life.coordinator, { next: 1, of: 'replaced' });
    world.count('second start with one id');
    world.note(`${life.replicaId} is started a second time`);
    await this.#bear(slot, life.replicaId);
  }

  async #stop(): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    const slot = this.#slotOf(life);
    if (life.isOver || life.isFrozen || life.isStopping || slot === -1) return;
    if (world.holds(life)) world.count('stop while holding');
    world.count('stop and start');
    if (this.#groups.includes('loss')) this.#strikeStop(life);
    world.note(`stop ${life.name}`);
    await Promise.race([life.stop(), life.died]);
    if (this.#slots[slot] !== life || life.isOver) return;
    if (world.chance(0.5)) {
      // The same object, started again.
      life.isStopping = false;
      await Promise.race([life.start(WORKERS), life.died]);
      return;
    }
    life.isOver = true;
    await world.clock.sleep(world.between(0, world.times.beatMs));
    await this.#bear(slot, life.replicaId);
  }

  // ── Clocks and the server ──────────────────────────────────────────────────────────────────────────────────────────

  async #stepServer(): Promise<void> {
    const world = this.#world;
    const isBack = world.chance(0.5);
    const ms = this.#losesData && isBack ? 3000 : world.oneOf(STEPS_MS);
    if (isBack && this.#losesData && this.#steppedBack) return;
    if (isBack) this.#steppedBack = true;
    world.count(isBack ? 'server clock back' : 'server clock forward');
    world.note(`server clock ${isBack ? '-' : '+'}${ms}`);
    world.mesh.stepClock(isBack ? -ms : ms);
  }

  async #changeServer(): Promise<void> {
    const world = this.#world;
    const what = this.#losesData ? world.oneOf(['server restart', 'wipe', 'rollback'] as const) : 'server restart';
    if (what === 'rollback') {
      this.#snapshot = { copy: world.mesh.snapshot(), stamp: stampsOf(world.mesh.snapshot()).least, atMs: world.now() };
      await world.clock.sleep(world.between(1, 3000));
    }
    for (const life of this.lives) life.suffered.serverChange = true;
    world.count(what);
    world.note(what);
    this.#newest = Math.max(this.#newest, stampsOf(world.mesh.snapshot()).greatest);
    const lostTo = this.#newest;
    if (what === 'server restart') world.mesh.restart();
    if (what === 'wipe') {
      world.mesh.wipe();
      world.record({ kind: 'data-lost', at: world.now(), keptTo: 0, lostTo });
    }
    if (what === 'rollback' && this.#snapshot !== undefined) {
      world.mesh.rollback(this.#snapshot.copy);
      const { stamp: keptTo, atMs: copiedAt } = this.#snapshot;
      world.record({ kind: 'data-lost', at: world.now(), keptTo, lostTo, copiedAt });
    }
  }

  async #stepWall(): Promise<void> {
    const world = this.#world;
    const life = this.#victim();
    const isBack = world.chance(0.5);
    const ms = world.oneOf(STEPS_MS);
    // A step forward looks like time that passed: trust may end for nothing, which is safe.
    if (!isBack) life.suffered.isolation = true;
    world.count(isBack ? 'wall clock back' : 'wall clock forward');
    world.note(`wall clock of ${life.name} ${isBack ? '-' : '+'}${ms}`);
    world.mesh.stepWall(life.coordinator, isBack ? -ms : ms);
  }
}

/** The last stamps given: by the shard that gave fewest, and by the one that gave most. */
function stampsOf(snapshot: MeshSnapshot): { least: number; greatest: number } {
  const stamps = snapshot.map(({ record }) => record.last);
  return { least: Math.min(...stamps), greatest: Math.max(...stamps) };
}
