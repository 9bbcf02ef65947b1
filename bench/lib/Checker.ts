/** One message of a load: the `number`th that its caller (`lane`) submitted for its chat, from 1 up. */
export interface Message {
  readonly chat: string;
  readonly chatIndex: number;
  readonly lane: number;
  readonly number: number;
  /** When it was submitted; 0 where nobody asks. */
  calledMs: number;
}

/** What went wrong in a run. A run in which anything did is no measurement. */
export interface Violations {
  /** Handlers of one chat that ran at the same time. */
  overlaps: number;
  /** Messages handled out of the order of their calls, more than once, or under a fence that did not grow. */
  disorder: number;
  losses: number;
}

/** Watches every handler of a run. Array look-ups only: what it costs is the same for every contender, and little. */
export class Checker {
  readonly #lanes: number;
  readonly #last: Uint32Array;
  readonly #fences: Float64Array;
  readonly #isBusy: Uint8Array;
  #overlaps = 0;
  #disorder = 0;
  #handled = 0;

  constructor(chats: number, lanes: number) {
    this.#lanes = lanes;
    this.#last = new Uint32Array(chats * lanes);
    this.#fences = new Float64Array(chats);
    this.#isBusy = new Uint8Array(chats);
  }

  /** `fence` is undefined where the contender has none. */
  begin({ chatIndex, lane, number }: Message, fence: number | undefined): void {
    if (this.#isBusy[chatIndex] === 1) this.#overlaps += 1;
    this.#isBusy[chatIndex] = 1;
    const at = chatIndex * this.#lanes + lane;
    if (number !== this.#last[at]! + 1) this.#disorder += 1;
    this.#last[at] = number;
    if (fence === undefined) return;
    if (fence <= this.#fences[chatIndex]!) this.#disorder += 1;
    this.#fences[chatIndex] = fence;
  }

  end({ chatIndex }: Message): void {
    this.#isBusy[chatIndex] = 0;
    this.#handled += 1;
  }

  violations(submitted: number): Violations {
    return { overlaps: this.#overlaps, disorder: this.#disorder, losses: submitted - this.#handled };
  }
}
