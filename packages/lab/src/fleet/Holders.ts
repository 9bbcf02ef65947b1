import type { HistoryEvent } from '@botmesh/core/testing';

interface Held {
  readonly replica: string;
  readonly fence: number;
  readonly at: number;
}

/** Who holds which key, as far as events have been told. */
export class Holders {
  readonly #held = new Map<string, Held>();
  #read = 0;

  /** Takes in what is new in a list that only grows. */
  read(events: readonly HistoryEvent[]): void {
    for (; this.#read < events.length; this.#read++) {
      const event = events[this.#read]!;
      if (event.kind === 'granted') this.#grant(event.key, event);
      if (event.kind === 'ended' && this.#held.get(event.key)?.fence === event.fence) this.#held.delete(event.key);
    }
  }

  /** Those that hold something now; who was granted it last comes first. */
  get names(): string[] {
    return [...this.#held.values()].sort((a, b) => b.at - a.at).map(({ replica }) => replica);
  }

  /** Histories are read one after the other: an older grant may be read later. */
  #grant(key: string, { at, fence, replica }: Held): void {
    const known = this.#held.get(key);
    if (known === undefined || known.at < at) this.#held.set(key, { at, fence, replica });
  }
}
