import type { Context } from '@botmesh/core';
import { ConfigError, DeliveryError } from '@botmesh/core/spi';
import { type CurrentTurn, runInTurn } from './current.js';
import { type Marks, withMark } from './marks.js';
import type { Stored, Webhook } from './receive.js';
import type { WebhookRoute } from './routes.js';

/** Where the SDK names no time, as it does for its own marks: 10 minutes. */
const MARK_MS = 600_000;

interface State {
  /** The marks of this chat, by which the SDK knows what it has seen. */
  marks?: Marks;
}

export type Handled = Context<State>;

interface Handling {
  readonly routes: ReadonlyMap<string, WebhookRoute>;
  readonly sdk: ReadonlyMap<string, Webhook>;
  readonly propagateHandlerErrors: boolean;
}

/** Gives the SDK the requests of one turn. Resolves when all it does about them has ended. */
export async function handleIn(ctx: Handled, handling: Handling): Promise<void> {
  const requests = ctx.messages.map(({ raw }) => raw as Stored);
  // More than one are parts of an album: the adapter puts together what it gets at the same time.
  const ended = await Promise.allSettled(requests.map((stored) => handOver(ctx, stored, handling)));
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed?.status === 'rejected') throw failed.reason;
}

async function handOver(ctx: Handled, stored: Stored, handling: Handling): Promise<void> {
  const { adapter, url, type, body } = stored;
  const route = handling.routes.get(adapter);
  const webhook = handling.sdk.get(adapter);
  if (route === undefined || webhook === undefined) {
    throw new ConfigError(
      `meshChat(): a request for adapter '${adapter}' was taken in, which this replica does not have.`,
    );
  }
  const headers = { 'content-type': type ?? 'application/json', ...route.headers?.(body) };
  const request = new Request(url, { method: 'POST', headers, body });
  const tasks: Promise<unknown>[] = [];
  const waitUntil = (task: Promise<unknown>): void => {
    // Looked at below; until then it is nobody's error.
    task.catch(() => {});
    tasks.push(task);
  };
  const { propagateHandlerErrors } = handling;
  const response = await runInTurn(turnOf(ctx, route), () => webhook(request, { waitUntil, propagateHandlerErrors }));
  await allOf(tasks);
  ctx.turn.assertHeld();
  if (!response.ok) throw refused(adapter, response.status);
}

/** Waits for tasks, and for those that they add, to the end; then throws what the first that failed did. */
async function allOf(tasks: readonly Promise<unknown>[]): Promise<void> {
  let failed: PromiseRejectedResult | undefined;
  for (let at = 0; at < tasks.length; ) {
    const ended = await Promise.allSettled(tasks.slice(at));
    at += ended.length;
    failed ??= ended.find((each) => each.status === 'rejected');
  }
  if (failed !== undefined) throw failed.reason;
}

function turnOf(ctx: Handled, route: WebhookRoute): CurrentTurn {
  const own = new Set<string>();
  return {
    attempt: ctx.attempt,
    assertHeld: () => {
      ctx.signal.throwIfAborted();
      ctx.turn.assertHeld();
    },
    isMark: (key) => key.startsWith('dedupe:') || route.isMark?.(key) === true,
    mark(key, ttlMs = MARK_MS) {
      // The adapter's own are for redeliveries, which the coordinator has told apart: within this attempt they hold.
      if (!key.startsWith('dedupe:')) return own.size !== own.add(key).size;
      const marks = withMark(ctx.state.marks ?? [], key, ttlMs, Date.now());
      if (marks === undefined) return false;
      ctx.state.marks = marks;
      return true;
    },
  };
}

function refused(adapter: string, status: number): Error {
  const what = `meshChat(): adapter '${adapter}' answered ${status} to a request in its turn.`;
  if (status >= 500) return new DeliveryError(`${what} It is tried again.`);
  return new ConfigError(`${what} Does its route prove what the adapter checks? Give both the same secret.`);
}
