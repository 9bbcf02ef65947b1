/** How this replica is, in a word for probes and people. `standby`: ready, while another one has the only connection. */
export type Health = 'new' | 'starting' | 'ready' | 'standby' | 'unavailable' | 'replaced' | 'stopping' | 'stopped';

/**
 * Answers `…/livez` (the process runs) and `…/readyz` (messages can be taken in: a load balancer may send some). Undefined
 * for other requests.
 */
export function probe(request: Request, health: Health): Response | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
  const { pathname } = new URL(request.url);
  if (pathname.endsWith('/livez')) return answer(200, health);
  if (pathname.endsWith('/readyz')) return answer(health === 'ready' || health === 'standby' ? 200 : 503, health);
  return undefined;
}

/** Asks the platform to deliver again. */
export function refusal(health: Health): Response {
  return answer(503, health, { 'retry-after': '1' });
}

function answer(status: number, health: Health, headers: Record<string, string> = {}): Response {
  return Response.json({ status: health }, { status, headers: { 'cache-control': 'no-store', ...headers } });
}
