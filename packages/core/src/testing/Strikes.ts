import type { Push } from '../coordination/store.js';

export type RequestKind = 'join' | 'apply' | 'beat' | 'leave' | 'waiting' | 'pace' | 'subscribe' | 'inspect';

/** How often a fault strikes: with a probability from 0 to 1, or the next `next` times, of one kind only if `of` says so. */
export type StrikeRate = number | { readonly next: number; readonly of?: RequestKind | Push['kind'] };

/** Decides, request by request, whether a fault strikes. */
export class Strikes {
  readonly #random: () => number;
  #rate: StrikeRate = 0;

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Whether it may strike at all from now on. */
  get isArmed(): boolean {
    return typeof this.#rate === 'number' ? this.#rate > 0 : this.#rate.next > 0;
  }

  set(rate: StrikeRate): void {
    this.#rate = rate;
  }

  strike(kind: RequestKind | Push['kind']): boolean {
    const rate = this.#rate;
    if (typeof rate === 'number') return rate > 0 && this.#random() < rate;
    if (rate.next <= 0 || (rate.of !== undefined && rate.of !== kind)) return false;
    this.#rate = { ...rate, next: rate.next - 1 };
    return true;
  }
}
