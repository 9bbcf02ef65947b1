import {
  BadInputError,
  CoordinationUnavailableError,
  type Intake,
  LeaseLostError,
  LifecycleError,
} from '@botmesh/core/spi';
import type { WebhookOptions } from 'chat';
import type { Place, WebhookRoute } from './routes.js';

export type Webhook = (request: Request, options?: WebhookOptions) => Promise<Response>;

/** What is stored of a request. */
export interface Stored {
  readonly adapter: string;
  readonly url: string;
  readonly type: string | null;
  readonly body: string;
}

interface Receiving {
  readonly routes: ReadonlyMap<string, WebhookRoute>;
  readonly sdk: ReadonlyMap<string, Webhook>;
  /** The adapter that a request is for. */
  readonly nameOf: (request: Request) => string | undefined;
  readonly log: (line: string) => void;
}

/** Longer bodies are refused with 413. */
const LONGEST_BODY = 1_000_000;

/** Answers webhooks: with 200 only when the request is safely taken in, also for one taken in before. */
export function receiver({ routes, sdk, nameOf, log }: Receiving) {
  const warned = new Set<string>();

  return async (request: Request, intake: Intake): Promise<Response> => {
    const adapter = nameOf(request);
    const route = adapter === undefined ? undefined : routes.get(adapter);
    if (adapter === undefined || route === undefined) return new Response(null, { status: 404 });
    const { method, url, headers } = request;
    const body = await request.text();
    if (body.length > LONGEST_BODY) return answer(413, 'the body is too long');
    const place = route.read({ method, url, headers, body });
    if (place instanceof Response) return place;
    if (place === 'at-once') {
      const again = new Request(url, { method, headers, ...(body === '' ? {} : { body }) });
      return (await sdk.get(adapter)?.(again)) ?? answer(404, 'no such adapter');
    }
    if (place.warning !== undefined && !warned.has(place.warning)) {
      warned.add(place.warning);
      log(`botmesh: WARNING: ${place.warning}. It is handled as any other.`);
    }
    return take(place, { adapter, url, type: headers.get('content-type'), body }, intake);
  };
}

async function take({ chat, id, kind }: Place, raw: Stored, intake: Intake): Promise<Response> {
  try {
    await intake({ chat: `${raw.adapter}:${chat}`, id, kind, text: '', raw });
    return new Response('OK', { status: 200 });
  } catch (error) {
    const isPassing =
      error instanceof CoordinationUnavailableError ||
      error instanceof LifecycleError ||
      error instanceof LeaseLostError;
    if (isPassing) return answer(503, 'not taken in; send it again', { 'retry-after': '1' });
    if (error instanceof BadInputError) return answer(400, error.message);
    throw error;
  }
}

function answer(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}
