/**
 * How this replica is, in a word for probes and people. `standby`: ready, while another one has the only connection.
 * `local`: the backend is away, and messages are handled by this process alone.
 */
export type Health =
  | 'new'
  | 'starting'
  | 'ready'
  | 'standby'
  | 'local'
  | 'unavailable'
  | 'replaced'
  | 'stopping'
  | 'stopped';

/**
 * Answers `…/livez` (the process runs) and `…/readyz` (messages can be taken in: a load balancer may send some). Undefined
 * for other requests.
 */
export function probe(request: Request, health: Health): Response | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
  const { pathname } = new URL(request.url);
  if (pathname.endsWith('/livez')) return answer(200, health);
  if (pathname.endsWith('/readyz')) return answer(TAKING_IN.includes(health) ? 200 : 503, health);
  return undefined;
}

const TAKING_IN: readonly Health[] = ['ready', 'standby', 'local'];

/** Asks the platform to deliver again. */
export function refusal(health: Health): Response {
  return answer(503, health, { 'retry-after': '1' });
}

function answer(status: number, health: Health, headers: Record<string, string> = {}): Response {
  return Response.json({ status: health }, { status, headers: { 'cache-control': 'no-store', ...headers } });
}
