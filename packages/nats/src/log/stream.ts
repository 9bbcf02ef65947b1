/** The stream of a log: made by the first that comes, and never changed by us. */
import { ConfigError } from '@botmesh/core/spi';
import { ApiError, NO_STREAM } from '../clients/failures.js';
import type { Link } from '../clients/Link.js';
import type { Place } from '../namespace.js';

export interface StreamWish {
  /** Undefined: one, or what there is. */
  readonly replicas: number | undefined;
  /** Undefined: no limit, or what there is. */
  readonly maxBytes: number | undefined;
}

export interface StreamState {
  /** Another stream of the same name has another one. */
  readonly created: string;
  readonly first: number;
  readonly last: number;
  readonly replicas: number;
}

interface StreamJson {
  readonly created: string;
  readonly config: Readonly<Record<string, unknown>>;
  readonly state: { readonly first_seq: number; readonly last_seq: number };
}

export async function look(link: Link, { stream }: Place): Promise<StreamState | undefined> {
  try {
    return stateOf(await link.ask<StreamJson>(`STREAM.INFO.${stream}`));
  } catch (error) {
    if (error instanceof ApiError && error.reason === NO_STREAM) return undefined;
    throw error;
  }
}

/** What is there, or was made. Several may make it at once: they all want the same. */
export async function ensureStream(
  link: Link,
  place: Place,
  wish: StreamWish,
  fixed: Readonly<Record<string, unknown>>,
): Promise<StreamState> {
  const { prefix, stream } = place;
  let found: StreamJson;
  const wanted = { ...fixed, name: stream, subjects: [`${prefix}.*`], retention: 'limits', storage: 'file' };
  try {
    found = await link.ask<StreamJson>(`STREAM.INFO.${stream}`);
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === NO_STREAM)) throw error;
    const { maxBytes = -1, replicas = 1 } = wish;
    const config = { ...wanted, num_replicas: replicas, max_bytes: maxBytes };
    found = await link.ask<StreamJson>(`STREAM.CREATE.${stream}`, config);
  }
  const chosen = {
    ...(wish.replicas === undefined ? {} : { num_replicas: wish.replicas }),
    ...(wish.maxBytes === undefined ? {} : { max_bytes: wish.maxBytes }),
  };
  demandSame(stream, found.config, { ...wanted, ...chosen });
  return stateOf(found);
}

function stateOf({ config, created, state }: StreamJson): StreamState {
  return { created, first: state.first_seq, last: state.last_seq, replicas: Number(config.num_replicas) };
}

function demandSame(
  stream: string,
  found: Readonly<Record<string, unknown>>,
  wanted: Readonly<Record<string, unknown>>,
): void {
  const differing = Object.keys(wanted).filter((name) => !isSame(found[name], wanted[name]));
  const foreign = ['mirror', 'sources', 'republish', 'template_owner'].filter((name) => found[name] !== undefined);
  const [name] = [...differing, ...foreign];
  if (name === undefined) return;
  const [has, wants] = [JSON.stringify(found[name]), JSON.stringify(wanted[name])];
  throw new ConfigError(
    `The stream ${stream} has ${name} ${has ?? 'not set'}, expected ${wants ?? 'not set'}. Pass what it has where that is an option, set the stream right by nats stream edit, or use another namespace.`,
    'config-mismatch',
  );
}

/** What is not set the server leaves out, or says as false or 0. */
function isSame(found: unknown, wanted: unknown): boolean {
  if (found === undefined) return wanted === false || wanted === 0;
  return JSON.stringify(found) === JSON.stringify(wanted);
}
