/** How much is measured. What is measured stays the same. */
export interface Effort {
  readonly rounds: number;
  /** A load for which the rounds take longer ends early, after two that count: a busy machine may not hold up for ever. */
  readonly secondsPerLoad: number;
  /** Rounds before those that count: cold code says nothing about a bot that runs for weeks. */
  readonly warmUps: number;
  /** For each contender and load in a round. */
  readonly messages: number;
  readonly latencySeconds: number;
  readonly handOvers: number;
  readonly chatsHeld: number;
  readonly beats: number;
}

export const FULL: Effort = {
  rounds: 7,
  secondsPerLoad: 14,
  warmUps: 3,
  messages: 15_000,
  latencySeconds: 0.25,
  handOvers: 2_000,
  chatsHeld: 10_000,
  beats: 50,
};

/** Enough to see that all of it works, too little to say how fast. */
export const QUICK: Effort = {
  rounds: 2,
  secondsPerLoad: 1,
  warmUps: 0,
  messages: 1_500,
  latencySeconds: 0.05,
  handOvers: 100,
  chatsHeld: 1_000,
  beats: 10,
};
