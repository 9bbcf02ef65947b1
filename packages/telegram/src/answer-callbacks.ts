import type { Intake } from '@botmesh/core/spi';
import type { Call } from './api.js';

/** Answers each callback query once it is taken in. Waits for no answer: a button that goes on waiting harms nobody. */
export function answerCallbacks(intake: Intake, call: Call, timeoutMs: number): Intake {
  return async (message) => {
    const taken = await intake(message);
    const id = message.kind === 'callback' ? queryId(message.raw) : undefined;
    if (taken === 'accepted' && id !== undefined) {
      void call('answerCallbackQuery', { callback_query_id: id }, { timeoutMs }).catch(() => {});
    }
    return taken;
  };
}

function queryId(raw: unknown): string | undefined {
  const { id } = (raw as { callback_query?: { id?: unknown } | null }).callback_query ?? {};
  return typeof id === 'string' ? id : undefined;
}
