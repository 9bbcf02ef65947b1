import type { ApplyAnswer, ApplyRequest, BeatAnswer, BeatRequest, News } from '@botmesh/core/spi';

export interface WaitingOptions {
  /** Looks for grants in the file. */
  readonly look: (epoch: number, era: number, isWaiting: (seq: number) => boolean) => void;
  /** Looks for processes that have ended. */
  readonly bury: () => Promise<void>;
  /** Changes when another process has written. */
  readonly version: () => unknown;
}

/** How often the file and the processes are looked at while somebody waits. */
const EVERY_MS = 25;

/** Knows which of this replica's tickets wait, and looks for what they wait for. With none, it does nothing. */
export class Waiting {
  readonly #options: WaitingOptions;
  readonly #seqs = new Set<number>();
  #epoch = 0;
  #era = 0;
  #timer: NodeJS.Timeout | undefined;
  #version: unknown;
  /** Granted in the file at the last look, though no push has told of it. */
  #untold = new Set<number>();
  #isBurying = false;

  constructor(options: WaitingOptions) {
    this.#options = options;
  }

  begin(epoch: number, era: number): void {
    this.#seqs.clear();
    this.#epoch = epoch;
    this.#era = era;
  }

  end(): void {
    this.#seqs.clear();
    this.#watch();
  }

  granted(seq: number): void {
    this.#seqs.delete(seq);
  }

  afterApply(request: ApplyRequest, answer: ApplyAnswer): void {
    if (answer.kind !== 'applied') return;
    for (const taken of answer.results) if (taken !== null && taken.fence === 0) this.#seqs.add(taken.seq);
    for (const op of request.ops) if (op.op === 'release') this.#seqs.delete(op.seq);
    this.#forget(answer.news);
  }

  afterBeat(request: BeatRequest, answer: BeatAnswer): void {
    if (answer.kind !== 'alive') return;
    this.#era = answer.era;
    for (const { seq, fence } of request.view) if (fence === 0) this.#seqs.add(seq);
    for (const { seq } of answer.lost) this.#seqs.delete(seq);
    this.#forget(answer.news);
  }

  #forget(news: News): void {
    for (const { seq } of news.grants) this.#seqs.delete(seq);
    this.#watch();
  }

  #watch(): void {
    if (this.#seqs.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
      return;
    }
    this.#timer ??= setInterval(() => this.#tick(), EVERY_MS).unref();
  }

  #tick(): void {
    if (this.#seqs.size === 0) {
      this.#watch();
      return;
    }
    try {
      const version = this.#options.version();
      if (version !== this.#version || this.#untold.size > 0) this.#look();
      this.#version = version;
    } catch {
      // The next heartbeat finds out what is wrong, and says so.
    }
    void this.#bury();
  }

  /** A grant has until the next look to be told of by its push, so that it is not told of twice. */
  #look(): void {
    const found = new Set<number>();
    this.#options.look(this.#epoch, this.#era, (seq) => {
      if (!this.#seqs.has(seq)) return false;
      found.add(seq);
      return this.#untold.has(seq);
    });
    this.#untold = found;
  }

  async #bury(): Promise<void> {
    if (this.#isBurying) return;
    this.#isBurying = true;
    await this.#options.bury().catch(() => {});
    this.#isBurying = false;
  }
}
