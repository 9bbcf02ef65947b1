// What a driver of `drivers/` is made of. Types only.

/** An engine over which processes agree: what is measured on it, and by what it is judged. A driver exports one as `backend`. */
export interface Backend {
  readonly name: string;
  /** All ratios are taken over the first: a plain program that does the least which keeps a chat in order. */
  readonly subjects: readonly [Subject, ...Subject[]];
  /** The loads that say something here; all of them where this is undefined. */
  readonly loads?: readonly string[];
  /** What botmesh has to reach here, by load and figure: `W2 rate`. */
  readonly goals: Readonly<Record<string, Goal>>;
  /** A new, empty place for one run. Rejects, saying why, where the engine is not there. */
  prepare(): Promise<Place>;
  /** What else can be asked for, by name: true when all is as it should be. Not run unless named. */
  readonly others?: Readonly<Record<string, (isQuick: boolean) => Promise<boolean>>>;
}

export interface Place {
  /** Plain data for the processes of the run: a path, a prefix, an address. */
  readonly where: string;
  remove(): Promise<void>;
}

/** A way to handle the messages of each chat one at a time, in order, from many processes. */
export interface Subject {
  readonly name: string;
  /** Whether it is botmesh: goals count for it, and it may do nothing wrong. */
  readonly isOurs: boolean;
  /** The loads it runs under; all of them where this is undefined. */
  readonly loads?: readonly string[];
  open(at: At): Promise<Line>;
}

/** Which of the run's processes this is, from 0 up, and where they meet. */
export interface At {
  readonly id: number;
  readonly where: string;
  /** Handles the message whose note this is, whichever process submitted it: for a subject that chooses the process. */
  handle(note: string): Promise<void>;
}

/** A subject, open in one process. */
export interface Line {
  /** Takes a place in the chat's queue, waits for the turn, handles, lets go. Where `At.handle` does, only takes the place. */
  submit(chat: string, message: Message): Promise<void>;
  close(): Promise<void>;
}

export interface Message {
  /** The message as text, for `At.handle`. */
  readonly note: string;
  /** To be called as soon as the place in the queue is sure. */
  placed(): void;
  /** What is done in the turn, under its fence where there is one. */
  handle(fence?: number): Promise<void>;
}

/** A bound on the median of the values, or of their ratios to the plain program's. */
export interface Goal {
  readonly on: 'value' | 'ratio';
  readonly atLeast?: number;
  readonly atMost?: number;
}
