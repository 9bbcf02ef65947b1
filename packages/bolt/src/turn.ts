import { type Context, DeliveryError } from '@botmesh/core';
import { ConfigError, inHand } from '@botmesh/core/spi';
import { kindOf, nameOf } from './arrival.js';
import type { Ack, Body, BoltApp, BoltEvent } from './bolt.js';

const LONGEST_POST_MS = 10_000;

/** What is stored of an event: plain JSON data. */
export interface Stored {
  readonly body: Body;
  readonly retryNum?: number;
  readonly retryReason?: string;
  readonly customProperties?: Readonly<Record<string, unknown>>;
}

/** What handlers find as `context.botmesh`. */
export interface TurnOfEvent {
  /** Aborts when the turn is lost or its time is over: pass it to whatever takes long. */
  readonly signal: AbortSignal;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Greater than that of every earlier turn of this chat. */
  readonly fence: number;
  /** Throws unless the turn is surely held. Call it before side effects other than calls of the Web API. */
  assertHeld(): void;
}

export function storedOf({ body, retryNum, retryReason, customProperties }: BoltEvent): Stored {
  const hasOwn = customProperties !== undefined && Object.keys(customProperties).length > 0;
  return {
    body,
    ...(retryNum === undefined ? {} : { retryNum }),
    ...(retryReason === undefined ? {} : { retryReason }),
    ...(hasOwn ? { customProperties } : {}),
  };
}

/** Lets the app process an event in its turn. */
export async function process(processEvent: BoltApp['processEvent'], stored: Stored, ctx: Context): Promise<void> {
  const botmesh: TurnOfEvent = {
    signal: ctx.signal,
    attempt: ctx.attempt,
    fence: ctx.turn.fence,
    assertHeld: () => inHand()?.assertHeld(),
  };
  await processEvent({
    body: stored.body,
    ack: lateAck(stored.body),
    retryNum: stored.retryNum,
    retryReason: stored.retryReason,
    customProperties: { ...stored.customProperties, botmesh },
  });
}

/** Slack has had its answer. What a handler would have added to it goes after it, where there is a way. */
function lateAck(body: Body): Ack {
  return async (answer?: unknown) => {
    if (answer === undefined || answer === null || answer === '') return;
    const url = body.response_url;
    if (kindOf(body) === 'command' && typeof url === 'string') {
      inHand()?.assertHeld();
      await post(url, typeof answer === 'string' ? { text: answer } : answer);
      return;
    }
    throw new ConfigError(
      `mesh(): a handler of ${nameOf(body)} gave ack() an answer, but Slack was answered before it ran. Name ` +
        `${nameOf(body)} in the option atOnce, so that it runs at once and outside of its chat's queue.`,
    );
  };
}

async function post(url: string, answer: unknown): Promise<void> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(answer),
      signal: AbortSignal.timeout(LONGEST_POST_MS),
    });
    await response.body?.cancel();
  } catch (cause) {
    throw new DeliveryError('mesh(): the response_url of a command did not answer', { cause });
  }
  if (!response.ok) throw new DeliveryError(`mesh(): the response_url of a command answered ${response.status}`);
}
