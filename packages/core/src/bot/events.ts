import type { Ended, Named } from '../pipeline/fate.js';
import type { Progress } from '../pipeline/setup.js';
import type { LocalMessage } from './LocalLine.js';

/** What a Bot tells about the messages that this replica handles, by event name. */
export interface BotEvents {
  /**
   * A message has ended, and how. One that its replica could not end, because it died or lost the turn, is told of by the
   * replica that ends it. A redelivery of a message that was taken in has no end of its own.
   */
  ended: Ended;
  /** A reply of which nobody knows whether it left before was sent again, or dropped: see `onUnknownSend`. */
  unknownSend: UnknownSend;
  /** The backend is away, and this process took a message in alone: see `onUnavailable`. */
  local: LocalMessage;
  /** A handler called `ctx.progress`. */
  progress: Progress;
}

export interface UnknownSend extends Named {
  readonly chat: string;
  readonly did: 'resent' | 'dropped';
}

export const BOT_EVENTS: { readonly [Event in keyof BotEvents]: true } = {
  ended: true,
  unknownSend: true,
  local: true,
  progress: true,
};
