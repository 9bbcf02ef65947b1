import type { MeshRecord } from '@botmesh/core/spi';
import type { Client } from './model-client.js';

/** Everything there is at one moment: the store, the replicas, and what may still go wrong. */
export interface MeshState {
  readonly record: MeshRecord;
  readonly run: number;
  /** Ticks since the start, and by how many the server's clock is ahead. */
  readonly now: number;
  readonly ahead: number;
  readonly clients: readonly Client[];
  readonly copy: MeshRecord | undefined;
  readonly left: {
    readonly reserves: readonly number[];
    readonly crashes: number;
    readonly pauses: number;
    readonly starts: number;
    readonly losses: number;
    readonly changes: number;
    readonly steps: number;
  };
  /** By key: the greatest fence and place that anybody believed in so far. */
  readonly last: Readonly<Record<string, { readonly fence: number; readonly seq: number }>>;
  readonly wrong: string | undefined;
}
