import type { Adapter } from 'chat';
import { currentTurn } from './current.js';

/** What changes something at the platform. */
const SENDS = [
  'postMessage',
  'postChannelMessage',
  'postEphemeral',
  'postObject',
  'reply',
  'stream',
  'scheduleMessage',
  'editMessage',
  'editObject',
  'deleteMessage',
  'addReaction',
  'removeReaction',
  'startTyping',
  'endTyping',
  'openDM',
  'openModal',
  'markAsRead',
] as const;

/**
 * Makes the adapter refuse, with LeaseLostError, to send out of a turn that is not surely held any more. What is sent
 * outside of any turn is not touched.
 */
export function guardSends(adapter: Adapter): void {
  const methods = adapter as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>;
  for (const name of SENDS) {
    const send = methods[name];
    if (typeof send !== 'function') continue;
    methods[name] = async (...args: unknown[]) => {
      currentTurn()?.assertHeld();
      return await send.apply(adapter, args);
    };
  }
}
