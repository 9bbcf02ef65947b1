import type { AdoptedMessage, Coordinator, Inbox, Mailroom } from '../coordination/types.js';
import type { IncomingMessage } from '../providers/provider.js';
import { type ChatJob, checkMessage, encode, type Message } from './envelope.js';
import type { Load } from './Load.js';
import { NEWER } from './notes.js';
import { type Rules, ruleOf } from './overlap.js';
import type { Work } from './setup.js';

const REMEMBERED_IDS = 100_000;

/** An `Intake`, also for jobs of the bot's own. */
export type Take = (message: IncomingMessage, job?: ChatJob) => Promise<'accepted' | 'duplicate'>;

export function isDurable(coordinator: Coordinator): coordinator is Coordinator & Inbox {
  const { accept, onAdopted } = coordinator as Partial<Inbox>;
  return typeof accept === 'function' && typeof onAdopted === 'function';
}

/**
 * Takes messages in: checks, stores and places each. `begin` gets those that are new. Nothing is awaited before the place
 * is taken: it is fixed when the call returns.
 */
export function durableIngress(inbox: Inbox, begin: (work: Work) => void, load: Load, overlap?: Overlapping): Take {
  return async (incoming, job) => {
    const message = checkMessage(incoming, job);
    const { id } = message;
    const body = encode(message);
    // In hand from here on: a stop waits for the answer.
    load.waiting++;
    try {
      const ticket = await inbox.accept(message.chat, id === undefined ? { body } : { id, body });
      if (ticket === null) return 'duplicate';
      const work: Work = { ticket, id, content: message, attempt: 1 };
      if (overlap === undefined) begin(work);
      else await meet(overlap, message, work, begin);
      return 'accepted';
    } finally {
      load.waiting--;
      load.changed();
    }
  };
}

/** What to do with messages that do not all wait for their turns. */
export interface Overlapping {
  readonly mail: Mailroom;
  readonly rules: Rules;
  /** Hears of a message that ended because its chat was busy. */
  readonly rejected: (work: Work, message: Message) => void;
  /** Hears of one that the store has not ended: it is the mesh's, or was lost with the store's data. */
  readonly left: (work: Work) => void;
}

async function meet(
  { mail, rules, rejected, left }: Overlapping,
  message: Message,
  work: Work,
  begin: (work: Work) => void,
): Promise<void> {
  const { mode } = ruleOf(rules, message);
  if (mail.isGranted(work.ticket)) {
    begin({ ...work, wasFree: true });
  } else if (mode === 'reject') {
    // Only then: one that another replica has taken over meanwhile is handled there. It is taken in either way.
    let isTold = false;
    const onLanded = (): void => {
      isTold = true;
      rejected(work, message);
    };
    await mail.finish(work.ticket, onLanded).catch(() => {});
    if (!isTold) left(work);
  } else {
    begin(work);
    // When it cannot be told, the turn goes on, and this message waits for its own.
    if (mode === 'interrupt') mail.tell(work.ticket.key, NEWER).catch(() => {});
  }
}

/** The same for a coordinator that keeps no messages: they, and the ids seen, are kept here, in this process. */
export function plainIngress(coordinator: Coordinator, begin: (work: Work) => void, load: Load): Take {
  const seen = new SeenIds();
  return async (incoming, job) => {
    const message = checkMessage(incoming, job);
    const { chat, id } = message;
    encode(message);
    if (id !== undefined && !seen.add(chat, id)) return 'duplicate';
    load.waiting++;
    try {
      const ticket = await coordinator.reserve(chat);
      begin({ ticket, id, content: message, attempt: 1 });
      return 'accepted';
    } catch (error) {
      if (id !== undefined) seen.remove(chat, id);
      throw error;
    } finally {
      load.waiting--;
      load.changed();
    }
  };
}

export function adopted({ ticket, id, body, attempt }: AdoptedMessage): Work {
  return { ticket, id, content: body, attempt };
}

/** The newest ids, of this process only. */
class SeenIds {
  readonly #names = new Set<string>();

  /** False when it was there. */
  add(chat: string, id: string): boolean {
    const name = JSON.stringify([chat, id]);
    if (this.#names.has(name)) return false;
    this.#names.add(name);
    if (this.#names.size > REMEMBERED_IDS) {
      const [oldest] = this.#names;
      if (oldest !== undefined) this.#names.delete(oldest);
    }
    return true;
  }

  remove(chat: string, id: string): void {
    this.#names.delete(JSON.stringify([chat, id]));
  }
}
