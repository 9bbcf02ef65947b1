import type {
  ApplyAnswer,
  ApplyRequest,
  BeatAnswer,
  BeatRequest,
  Clock,
  Grant,
  News,
  Push,
  Timer,
} from '@botmesh/core/spi';

/** Which of these tickets are held by now, and whether something else lies there for the replica. */
export interface Sight {
  readonly era: number;
  readonly grants: readonly Grant[];
  readonly hasMore: boolean;
}

export interface PollingOptions {
  readonly clock: Clock;
  readonly everyMs: number;
  readonly look: (
    epoch: number,
    tickets: readonly { readonly key: string; readonly seq: number }[],
  ) => Promise<Sight | undefined>;
  readonly tell: (push: Push) => void;
}

/** Knows which tickets of one replica wait, and asks for what they wait for. With none, it does nothing. */
export class Polling {
  readonly #options: PollingOptions;
  readonly #waiting = new Map<number, string>();
  #epoch = 0;
  #timer: Timer | undefined;
  #isLooking = false;

  constructor(options: PollingOptions) {
    this.#options = options;
  }

  begin(epoch: number): void {
    if (epoch !== this.#epoch) this.#waiting.clear();
    this.#epoch = epoch;
  }

  end(): void {
    this.#waiting.clear();
    this.#watch();
  }

  afterApply({ ops }: ApplyRequest, answer: ApplyAnswer): void {
    if (answer.kind !== 'applied') return;
    ops.forEach((op, at) => {
      const taken = answer.results[at];
      if (op.op === 'release') this.#waiting.delete(op.seq);
      else if (TAKES.has(op.op) && taken?.fence === 0) this.#waiting.set(taken.seq, op.key);
    });
    this.#forget(answer.news);
  }

  afterBeat({ view }: BeatRequest, answer: BeatAnswer): void {
    if (answer.kind !== 'alive') return;
    for (const { fence, key, seq } of view) if (fence === 0) this.#waiting.set(seq, key);
    for (const { seq } of answer.lost) this.#waiting.delete(seq);
    this.#forget(answer.news);
  }

  #forget({ grants }: News): void {
    for (const { seq } of grants) this.#waiting.delete(seq);
    this.#watch();
  }

  #watch(): void {
    const { clock, everyMs } = this.#options;
    if (this.#waiting.size > 0) {
      if (!this.#isLooking) this.#timer ??= clock.setTimer(everyMs, () => void this.#look());
    } else if (this.#timer !== undefined) {
      clock.clearTimer(this.#timer);
      this.#timer = undefined;
    }
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    this.#isLooking = true;
    const epoch = this.#epoch;
    const tickets = [...this.#waiting].map(([seq, key]) => ({ seq, key }));
    // What is wrong, the next heartbeat finds out and says.
    const sight = await this.#options.look(epoch, tickets).catch(() => undefined);
    this.#isLooking = false;
    if (sight !== undefined && epoch === this.#epoch) this.#pass(sight, epoch);
    this.#watch();
  }

  #pass({ era, grants, hasMore }: Sight, epoch: number): void {
    for (const { fence, key, seq } of grants) {
      if (this.#waiting.delete(seq)) this.#options.tell({ kind: 'grant', epoch, era, key, seq, fence });
    }
    if (hasMore) this.#options.tell({ kind: 'look', epoch });
  }
}

const TAKES = new Set(['reserve', 'try', 'accept']);
