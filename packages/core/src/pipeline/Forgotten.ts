import type { Ticket } from '../coordination/types.js';
import type { Clock } from '../time/clock.js';
import type { EndDetail, How, Named } from './fate.js';
import { pause } from './pause.js';

/** So long what left is kept in mind while the store answers: it would have said by then that it does not know it. */
const KEPT_MS = 120_000;
/** So long a handler may go on after the loss. */
const UNNOTICED_MS = 3_600_000;
/** So long messages are gathered for one line. */
const GATHERED_MS = 1_000;
const LISTED = 20;

export interface ForgottenSetup {
  readonly clock: Clock;
  /** Aborts when nothing is to be waited for any more. */
  readonly stopping: AbortSignal;
  /** Whether the store does not answer, and so cannot say what it knows. */
  readonly isAway: () => boolean;
  readonly ended: (chat: string, message: Named, how: How, more: EndDetail) => void;
  readonly tell: (line: string) => void;
}

/** A message with its place. */
interface Placed {
  readonly ticket: Ticket;
  readonly id: string | undefined;
}

interface Left {
  readonly id: string | undefined;
  readonly atMs: number;
}

/**
 * Tells of messages that this replica had, and that ended nowhere, since the store lost its data: each by an event, all by
 * one line. Without that they would be gone without a word: whoever took them in has told the platform so.
 */
export class Forgotten {
  readonly #setup: ForgottenSetup;
  /** What turns here had to leave to the mesh, by place. */
  readonly #left = new Map<number, Left>();
  /** Forgotten by the store, while their turns here have not noticed. */
  readonly #unnoticed = new Map<number, number>();
  #gathered: string[] = [];

  constructor(setup: ForgottenSetup) {
    this.#setup = setup;
  }

  /** A message is left to the mesh. */
  left({ ticket: { key, seq }, id }: Placed): void {
    const atMs = this.#setup.clock.monotonicMs();
    if (this.#unnoticed.delete(seq)) {
      this.#lost(key, { seq, id });
      return;
    }
    // Newer ones stand behind older ones.
    this.#left.delete(seq);
    this.#left.set(seq, { id, atMs });
    if (!this.#setup.isAway()) dropOlder(this.#left, atMs - KEPT_MS, (each) => each.atMs);
  }

  /** A message has ended here. */
  ended({ ticket: { seq } }: Placed): void {
    if (this.#left.size > 0) this.#left.delete(seq);
  }

  /** What the store does not know any more. */
  heard(messages: readonly Ticket[]): void {
    const nowMs = this.#setup.clock.monotonicMs();
    dropOlder(this.#unnoticed, nowMs - UNNOTICED_MS, (atMs) => atMs);
    for (const { key, seq } of messages) {
      const found = this.#left.get(seq);
      this.#left.delete(seq);
      if (found === undefined) this.#unnoticed.set(seq, nowMs);
      else this.#lost(key, { seq, id: found.id });
    }
  }

  #lost(chat: string, message: Named): void {
    // Another replica may have had it before, and ended it.
    this.#setup.ended(chat, message, 'lost', { isUnsure: true });
    this.#gathered.push(message.id === undefined ? chat : `${chat} (${message.id})`);
    if (this.#gathered.length === 1) void this.#tellSoon();
  }

  async #tellSoon(): Promise<void> {
    const { clock, stopping, tell } = this.#setup;
    await pause(clock, GATHERED_MS, stopping);
    const gathered = this.#gathered;
    this.#gathered = [];
    const more = gathered.length > LISTED ? `, and ${gathered.length - LISTED} more` : '';
    tell(
      `the store lost data, and with it ${gathered.length} messages that this replica had taken in and not ended, of chats ${gathered.slice(0, LISTED).join(', ')}${more}. They are not handled, unless another replica had them before; what is delivered again is taken in.`,
    );
  }
}

/** From the first to the first that is not older. */
function dropOlder<T>(map: Map<number, T>, thanMs: number, msOf: (value: T) => number): void {
  for (const [seq, value] of map) {
    if (msOf(value) >= thanMs) return;
    map.delete(seq);
  }
}
