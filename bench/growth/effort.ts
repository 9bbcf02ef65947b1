import type { Rounds } from './plot.js';

/** How much is measured. */
export interface Effort extends Rounds {
  /** Of each case in a round. */
  readonly turns: number;
  readonly handOvers: number;
  readonly beats: number;
  readonly replicas: readonly number[];
  readonly chats: readonly number[];
  /** In one chat. */
  readonly waiting: readonly number[];
  readonly held: readonly number[];
  /** Replicas that do nothing but send heartbeats. */
  readonly mesh: readonly number[];
  /** The same, on Redis: its server has little more to give at some five hundred. */
  readonly redisMesh: readonly number[];
  readonly processes: readonly number[];
  readonly runMs: number;
  /** How long the heartbeats of a mesh on Redis are counted. */
  readonly watchMs: number;
}

export const FULL: Effort = {
  rounds: 5,
  warmUps: 2,
  turns: 4_000,
  handOvers: 1_000,
  beats: 200,
  replicas: [1, 2, 4, 8, 16, 32, 64],
  chats: [1, 10, 100, 1_000, 10_000, 100_000],
  waiting: [1, 10, 100, 1_000, 10_000],
  held: [0, 1, 10, 100, 1_000, 10_000],
  mesh: [1, 4, 16, 64, 256, 1_000],
  redisMesh: [1, 8, 64, 256, 500],
  processes: [1, 2, 4, 8],
  runMs: 2_000,
  watchMs: 4_000,
};

/** Enough to see that all of it works, too little to say how much anything costs. */
export const QUICK: Effort = {
  rounds: 1,
  warmUps: 0,
  turns: 300,
  handOvers: 50,
  beats: 4,
  replicas: [1, 4],
  chats: [1, 100],
  waiting: [1, 100],
  held: [0, 100],
  mesh: [1, 16],
  redisMesh: [1, 16],
  processes: [1, 2],
  runMs: 300,
  watchMs: 2_000,
};
