// What the parent and the processes of a run say to each other. Types only.
import type { Count } from './Counted.js';
import type { Load } from './loads.js';

/** What a process of a run is told at its start. */
export interface Task {
  /** The driver's file name, without its ending. */
  readonly driver: string;
  readonly subject: string;
  readonly id: number;
  readonly where: string;
  readonly load: Load;
  readonly runMs: number;
  /** For how long it runs before that which counts. */
  readonly warmMs: number;
}

export type Order =
  | { readonly kind: 'warm' }
  | { readonly kind: 'go' }
  /** In a burst: all is handled, or no more is. */
  | { readonly kind: 'enough' }
  | { readonly kind: 'close' };

export type Report =
  | { readonly kind: 'ready' }
  | { readonly kind: 'warm' }
  /** In a burst, again and again: how many messages it has handled. */
  | { readonly kind: 'handled'; readonly count: number }
  /** In a crash: the turn has come. */
  | { readonly kind: 'started'; readonly atUs: number }
  /** In a crash: it has its place behind the holder. */
  | { readonly kind: 'placed' }
  | ({ readonly kind: 'done' } & Outcome);

/** What one process saw of a run. */
export interface Outcome {
  readonly turns: Float64Array;
  readonly submitted: number;
  readonly count: Count;
  readonly blockMs: number;
  readonly errors: readonly string[];
}
