import type { Connect } from '../fleet/told.js';
import type { TestProxy } from '../TestProxy.js';

/** A backend that the lab tries: what it starts, how replicas reach it, and what can happen to its servers. */
export interface Backend {
  readonly name: string;
  /** Which file of `clients/` opens a replica's coordinator on it. */
  readonly client: string;
  /** Why it cannot be tried here; undefined when it can. */
  whyNot(): string | undefined;
  open(options: OpenOptions): Promise<Site>;
}

export interface OpenOptions {
  readonly seed: number;
  readonly random: () => number;
  /**
   * A server whose clock was set back and which then loses data is beyond what is promised: in one run either its clock is
   * moved, or its data goes back.
   */
  readonly harm: 'clock' | 'data';
}

/** Servers that run, until they are disposed of. */
export interface Site extends AsyncDisposable {
  /** More options of the replicas' coordinators. */
  readonly coordinator?: Readonly<Record<string, unknown>>;
  readonly shards?: number;
  /** Of the replicas' processes. */
  readonly environment?: Readonly<Record<string, string>>;
  /** What can happen to the servers. One at a time does. */
  readonly faults: readonly SiteFault[];
  /** A way to the servers for one more replica. */
  way(): Promise<Way>;
}

/** How one replica reaches the servers: by proxies of its own, where there is a network. */
export interface Way {
  readonly connect: Connect;
  readonly proxies: readonly TestProxy[];
}

export interface SiteFault {
  readonly kind: string;
  /** Resolves when it is over, and what it broke works again. */
  readonly strike: (strike: Strike) => Promise<void>;
}

export interface Strike {
  readonly random: () => number;
  /** How long it is to last, where it lasts. */
  readonly spanMs: number;
  /** See `Fleet.lostData`. */
  readonly lostData: (keptUntil: number) => void;
}
