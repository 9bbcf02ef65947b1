import type { Update, UpdateQueue } from './UpdateQueue.js';

const SECRET_HEADER = 'x-telegram-bot-api-secret-token';
const LONGEST_DELAY_MS = 60_000;

export interface Webhook {
  readonly url: string;
  readonly secretToken: string | undefined;
  readonly maxConnections: number;
}

/** One attempt to deliver an update. */
export interface Delivery {
  readonly updateId: number;
  /** Undefined when nobody answered. */
  readonly status: number | undefined;
}

/**
 * Posts what waits to the webhook: the updates of one chat one at a time and in order, those of several chats at once, up
 * to the number of connections. One that was not answered with 2xx comes again, after a pause that is twice as long each
 * time, or as long as the answer asks for; those behind it in its chat wait.
 */
export class WebhookDelivery {
  readonly deliveries: Delivery[] = [];
  lastError: string | undefined;
  readonly #webhook: Webhook;
  readonly #queue: UpdateQueue;
  readonly #firstDelayMs: number;
  /** Runs a method that was given as the answer. */
  readonly #call: (method: string, payload: Record<string, unknown>) => void;
  readonly #busy = new Set<string>();
  readonly #over = new AbortController();

  constructor(webhook: Webhook, queue: UpdateQueue, firstDelayMs: number, call: WebhookDelivery['call']) {
    this.#webhook = webhook;
    this.#queue = queue;
    this.#firstDelayMs = firstDelayMs;
    this.#call = call;
  }

  get webhook(): Webhook {
    return this.#webhook;
  }

  get call(): (method: string, payload: Record<string, unknown>) => void {
    return this.#call;
  }

  stop(): void {
    this.#over.abort();
  }

  /** Looks for what can be delivered now. */
  wake(): void {
    if (this.#over.signal.aborted) return;
    const seen = new Set(this.#busy);
    for (const update of this.#queue.waiting) {
      const chat = chatOf(update);
      if (seen.has(chat)) continue;
      seen.add(chat);
      if (this.#busy.size >= this.#webhook.maxConnections) return;
      this.#busy.add(chat);
      void this.#deliver(update, chat);
    }
  }

  async #deliver(update: Update, chat: string): Promise<void> {
    for (
      let delayMs = this.#firstDelayMs;
      !this.#over.signal.aborted;
      delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS)
    ) {
      const askedMs = await this.#post(update);
      if (askedMs === undefined) break;
      await pause(Math.max(delayMs, askedMs), this.#over.signal);
    }
    this.#busy.delete(chat);
    this.wake();
  }

  /** Undefined when it was taken; else how long the receiver asked to be left alone. */
  async #post(update: Update): Promise<number | undefined> {
    const { url, secretToken } = this.#webhook;
    const headers = {
      'content-type': 'application/json',
      ...(secretToken === undefined ? {} : { [SECRET_HEADER]: secretToken }),
    };
    try {
      const signal = AbortSignal.any([this.#over.signal, AbortSignal.timeout(LONGEST_DELAY_MS)]);
      const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(update), signal });
      const text = await response.text();
      this.deliveries.push({ updateId: update.update_id, status: response.status });
      if (!response.ok) {
        this.lastError = `Wrong response from the webhook: ${response.status} ${response.statusText}`;
        return Number(response.headers.get('retry-after') ?? 0) * 1000 || 0;
      }
      this.#queue.confirm(update);
      this.#answer(text);
      return undefined;
    } catch {
      this.deliveries.push({ updateId: update.update_id, status: undefined });
      this.lastError = 'Connection refused';
      return 0;
    }
  }

  #answer(text: string): void {
    try {
      const { method, ...payload } = JSON.parse(text) as Record<string, unknown>;
      if (typeof method === 'string') this.#call(method, payload);
    } catch {
      // Most answers are no calls.
    }
  }
}

/** What must come in order. */
function chatOf(update: Update): string {
  const [, content] = Object.entries(update).find(([name]) => name !== 'update_id') ?? [];
  const { chat, message, from } = (content ?? {}) as Record<string, { id?: number; chat?: { id: number } } | undefined>;
  return String(chat?.id ?? message?.chat?.id ?? from?.id ?? update.update_id);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end);
  });
}
