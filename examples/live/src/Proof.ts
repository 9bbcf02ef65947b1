/** What was promised, counted. */
export interface Counts {
  readonly received: number;
  readonly handled: number;
  /** Handled right after the message before it in its chat. */
  readonly inOrder: number;
  /** Passed over: a later message of the chat was handled, and this one was not. */
  readonly lost: number;
  /** Counted twice by the chat's own state, or shown twice. */
  readonly doubled: number;
  /** Begun again because the first replica died or was passed over. */
  readonly takenOver: number;
}

interface Chat {
  /** The place of each id, from 1, as they came in. */
  readonly places: Map<string, number>;
  readonly handled: Set<string>;
  /** The place of the last one handled, from 1. */
  last: number;
  inOrder: number;
  /** How far the chat's state has counted beyond what came in. */
  excess: number;
}

/** Compares what came in with what replicas and chats say of it. It decides nothing. */
export class Proof {
  readonly #chats = new Map<string, Chat>();
  readonly #takenOver = new Set<string>();
  readonly #answers = new Map<string, number>();

  received(chat: string, id: string): void {
    let entry = this.#chats.get(chat);
    if (entry === undefined) {
      entry = { places: new Map(), handled: new Set(), last: 0, inOrder: 0, excess: 0 };
      this.#chats.set(chat, entry);
    }
    entry.places.set(id, entry.places.size + 1);
  }

  began(id: string, attempt: number): void {
    if (attempt > 1) this.#takenOver.add(id);
  }

  /** The bot of this example answers each message once. */
  shown(id: string): void {
    this.#answers.set(id, (this.#answers.get(id) ?? 0) + 1);
  }

  /** `count` is the chat's own: how many of its messages changed its state. */
  handled(chat: string, id: string, count: number): void {
    const entry = this.#chats.get(chat);
    const place = entry?.places.get(id);
    if (entry === undefined || place === undefined) return;
    entry.excess = Math.max(entry.excess, count - place);
    if (entry.handled.has(id)) return;
    entry.handled.add(id);
    if (place === entry.last + 1) entry.inOrder++;
    entry.last = Math.max(entry.last, place);
  }

  get counts(): Counts {
    const counts = { received: 0, handled: 0, inOrder: 0, lost: 0, doubled: 0, takenOver: this.#takenOver.size };
    for (const { places, handled, last, inOrder, excess } of this.#chats.values()) {
      counts.received += places.size;
      counts.handled += handled.size;
      counts.inOrder += inOrder;
      counts.doubled += excess;
      counts.lost += last - handled.size;
    }
    for (const times of this.#answers.values()) counts.doubled += times - 1;
    return counts;
  }
}
