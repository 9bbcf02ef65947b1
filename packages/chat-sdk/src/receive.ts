import {
  BadInputError,
  CoordinationUnavailableError,
  type Intake,
  LeaseLostError,
  LifecycleError,
  readBody,
} from '@botmesh/core/spi';
import type { WebhookOptions } from 'chat';
import type { Arrived, Place, WebhookRoute } from './routes.js';

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

/** Longer bodies are refused with 413, in bytes. */
const LONGEST_BODY = 1_000_000;

/** Answers webhooks: with 200 only when the request is safely taken in, also for one taken in before. */
export function receiver({ routes, sdk, nameOf, log }: Receiving) {
  const warned = new Set<string>();

  return async (request: Request, intake: Intake): Promise<Response> => {
    const adapter = nameOf(request);
    const route = adapter === undefined ? undefined : routes.get(adapter);
    if (adapter === undefined || route === undefined) return new Response(null, { status: 404 });
    const { method, url, headers } = request;
    const body = await bodyOf(request);
    if (body instanceof Response) return body;
    const place = readBy(route, { method, url, headers, body }, (name) =>
      log(`botmesh: the route of adapter ${adapter} could not read a request (${name}): it was answered with 400.`),
    );
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

/** Never more of it than may be taken in, whoever sends it. */
async function bodyOf(request: Request): Promise<string | Response> {
  if (request.method === 'GET' || request.method === 'HEAD') return '';
  const bytes = await readBody(request, LONGEST_BODY).catch(() => answer(400, 'the body broke off'));
  if (bytes === undefined) return answer(413, `the body is longer than ${LONGEST_BODY} bytes`);
  return bytes instanceof Response ? bytes : new TextDecoder().decode(bytes);
}

/** A route is somebody's own code: what it cannot read, nobody can take in. */
function readBy(route: WebhookRoute, arrived: Arrived, tell: (name: string) => void): ReturnType<WebhookRoute['read']> {
  try {
    return route.read(arrived);
  } catch (error) {
    tell(error instanceof Error ? error.name : typeof error);
    return answer(400, 'the request cannot be read');
  }
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
