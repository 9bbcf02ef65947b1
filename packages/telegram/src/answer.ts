import type { IncomingMessage, Intake } from '@botmesh/core/spi';
import type { Call } from './api.js';

/**
 * Says what a query is answered at once, without its id: `{ ok: true }` of a `checkout`, `{ results: […] }` of an `inline`, `{ text }`
 * of a `callback`. Called when it was taken in, once, on the replica that got it, outside of its chat's queue: be quick, and change
 * nothing here. Undefined leaves it to the handler; a callback is answered with nothing then.
 */
export type Answer = (
  message: IncomingMessage,
) => Readonly<Record<string, unknown>> | undefined | Promise<Readonly<Record<string, unknown>> | undefined>;

export interface Answering {
  readonly call: Call;
  readonly timeoutMs: number;
  readonly answer: Answer | undefined;
  /** Whether a callback is answered, too, of which the hook says nothing. */
  readonly answerCallbacks: boolean;
  readonly log: (line: string) => void;
}

/** What waits for an answer: its member of the update, the method that answers, and the parameter for its id. */
const QUERIES: Readonly<Record<string, readonly [member: string, method: string, id: string]>> = {
  callback: ['callback_query', 'answerCallbackQuery', 'callback_query_id'],
  checkout: ['pre_checkout_query', 'answerPreCheckoutQuery', 'pre_checkout_query_id'],
  shipping: ['shipping_query', 'answerShippingQuery', 'shipping_query_id'],
  inline: ['inline_query', 'answerInlineQuery', 'inline_query_id'],
};

/** Answers queries once they are taken in. Whoever takes them in does not wait for that. */
export function answering(intake: Intake, setup: Answering): Intake {
  return async (message) => {
    const taken = await intake(message);
    if (taken === 'accepted') void answerOne(message, setup);
    return taken;
  };
}

/** Never rejects: a query that stays without an answer harms no chat. */
async function answerOne(message: IncomingMessage, setup: Answering): Promise<void> {
  const { kind = '', raw } = message;
  const [member, method, parameter] = (Object.hasOwn(QUERIES, kind) ? QUERIES[kind] : undefined) ?? [];
  if (member === undefined || method === undefined || parameter === undefined) return;
  const id = (raw as Readonly<Record<string, { id?: unknown } | null>>)[member]?.id;
  if (typeof id !== 'string') return;
  try {
    const byDefault = kind === 'callback' && setup.answerCallbacks ? {} : undefined;
    const said = (await setup.answer?.(message)) ?? byDefault;
    if (said !== undefined) await setup.call(method, { ...said, [parameter]: id }, { timeoutMs: setup.timeoutMs });
  } catch (error) {
    setup.log(`telegram: a query was not answered (${kind}, ${error instanceof Error ? error.name : typeof error}).`);
  }
}
