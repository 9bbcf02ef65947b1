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
 * How an account is on this replica. `connecting`: it is this replica's, and not connected yet. `conflict`: it could not be
 * connected from here, and is left to the others for a while. `standby`: another replica has it, or will.
 */
export type AccountHealth = 'held' | 'connecting' | 'conflict' | 'standby';

/** What keeps a replica from going on, for probes and people. */
export interface Waits {
  readonly for: 'quarantine';
  /** About when it is over, by the wall clock, and in how long. */
  readonly until: string;
  readonly leftMs: number;
}

/** What `…/readyz` shows beside a word. */
export interface Details {
  /** What this replica waits for before it handles what it takes in. */
  readonly waits?: Waits | undefined;
  /** Where a provider has several. */
  readonly accounts?: Readonly<Record<string, AccountHealth>>;
}

/**
 * Answers `…/livez` (the process runs) and `…/readyz` (messages can be taken in: a load balancer may send some). Undefined
 * for other requests.
 */
export function probe(request: Request, health: Health, details: () => Details): Response | undefined {
  if (request.method !== 'GET' && request.method !== 'HEAD') return undefined;
  const { pathname } = new URL(request.url);
  if (pathname.endsWith('/livez')) return answer(200, health);
  if (pathname.endsWith('/readyz'))
    return answer(TAKING_IN.includes(health) ? 200 : 503, health, { details: details() });
  return undefined;
}

const TAKING_IN: readonly Health[] = ['ready', 'standby', 'local'];

/** Asks the platform to deliver again. */
export function refusal(health: Health): Response {
  return answer(503, health, { headers: { 'retry-after': '1' } });
}

interface More {
  readonly headers?: Record<string, string>;
  readonly details?: Details;
}

function answer(status: number, health: Health, { headers = {}, details = {} }: More = {}): Response {
  const init = { status, headers: { 'cache-control': 'no-store', ...headers } };
  return Response.json({ status: health, ...details }, init);
}
