import { BadInputError } from '../errors.js';
import type { Message } from '../pipeline/envelope.js';
import type { Provider, Reply, SendContext } from '../providers/provider.js';

/** What `onRejected` gets: a message that found its chat busy, and was not kept. It has no turn, and no state. */
export interface Rejected {
  readonly message: Message;
  /** Sends to the chat at once, maybe between replies of the turn that runs there. Rejects when the provider cannot. */
  reply(reply: string | Reply): Promise<void>;
}

export type RejectedHook = (ctx: Rejected) => unknown;

/** `name` is the message's, for the idempotency keys of the replies. */
export function rejectedContext(provider: Provider, message: Message, name: string, signal: AbortSignal): Rejected {
  let count = 0;
  return {
    message,
    async reply(reply) {
      const sent = typeof reply === 'string' ? { text: reply } : reply;
      if (typeof sent?.text !== 'string') {
        throw new BadInputError(`ctx.reply(): expected a text or { text }, found ${typeof reply}.`);
      }
      const context: SendContext = { signal, fence: 0, key: `${name}:rejected:${count++}` };
      await provider.send(message.chat, sent, context);
    },
  };
}
