import type { StoreView } from '../coordination/store.js';
import type { Coordinator, Inbox } from '../coordination/types.js';
import type { Clock } from '../time/clock.js';
import type { ConformanceMesh, TestReplica, TestReplicaOptions, TestServer } from './conformance.js';
import type { Rig } from './Rig.js';
import { VirtualClock } from './VirtualClock.js';

/** What of a replica's options is the engine's. */
export type EngineOptions = Omit<TestReplicaOptions, 'onAdopted' | 'start' | 'pretend'>;

export interface LabMeshOptions {
  clock: Clock;
  leaseMs: number;
  slackMs?: number | undefined;
  /** A coordinator, not started, that runs on the rig's clock and links. */
  connect(options: EngineOptions): Promise<{ coordinator: Coordinator & Inbox; rig: Rig }>;
  inspect(): Promise<readonly StoreView[]>;
  server: TestServer;
  close(): Promise<void>;
}

/** A ConformanceMesh of anything that runs on rigs. */
export function labMesh(options: LabMeshOptions): ConformanceMesh {
  const { clock, leaseMs, server } = options;
  const replicas: LabReplica[] = [];
  const sleep = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      clock.setTimer(ms, resolve);
    });
  return {
    clock,
    leaseMs,
    server,
    slackMs: options.slackMs ?? (clock instanceof VirtualClock ? leaseMs / 200 : leaseMs / 4),
    sleep,
    run: (body) => (clock instanceof VirtualClock ? clock.run(body) : body()),
    inspect: () => options.inspect(),
    async replica({ onAdopted, pretend, start = true, ...engine } = {}) {
      const { coordinator, rig } = await options.connect(engine);
      const replica = new LabReplica(coordinator, rig);
      replicas.push(replica);
      if (pretend !== undefined) rig.pretend(pretend);
      if (onAdopted !== undefined) coordinator.onAdopted(onAdopted);
      if (start) await coordinator.start();
      return replica;
    },
    async close() {
      await Promise.all(replicas.map((replica) => Promise.race([replica.end(), sleep(leaseMs)])));
      for (const replica of replicas) replica.crash();
      await options.close();
    },
  };
}

class LabReplica implements TestReplica {
  readonly coordinator: Coordinator & Inbox;
  readonly #rig: Rig;

  constructor(coordinator: Coordinator & Inbox, rig: Rig) {
    this.coordinator = coordinator;
    this.#rig = rig;
  }

  get isFrozen() {
    return this.#rig.clock.isFrozen;
  }

  get counts() {
    return this.#rig.counts;
  }

  get timers() {
    return this.#rig.clock.pending;
  }

  freeze = () => this.#rig.freeze();
  suspend = () => this.#rig.suspend();
  thaw: TestReplica['thaw'] = (options) => this.#rig.thaw(options);
  cut: TestReplica['cut'] = (way) => this.#rig.cut(way);
  heal: TestReplica['heal'] = (way) => this.#rig.heal(way);
  delay: TestReplica['delay'] = (range) => this.#rig.delay(range);
  loseAnswers: TestReplica['loseAnswers'] = (rate) => this.#rig.loseAnswers(rate);
  repeatRequests: TestReplica['repeatRequests'] = (rate, afterMs) => this.#rig.repeatRequests(rate, afterMs);
  dropPushes: TestReplica['dropPushes'] = (rate) => this.#rig.dropPushes(rate);
  stepWall: TestReplica['stepWall'] = (ms) => this.#rig.clock.stepWall(ms);
  crash = () => this.#rig.kill();

  /** Stops in good order where that is possible. */
  async end(): Promise<void> {
    if (this.#rig.clock.isKilled) return;
    this.#rig.heal();
    this.#rig.delay({ minMs: 0, maxMs: 0 });
    this.#rig.loseAnswers(0);
    this.#rig.thaw();
    await this.coordinator.stop();
  }
}
