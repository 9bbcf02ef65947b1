/** How users say where NATS is: the same for the coordinator and for state. */
import { ConfigError } from '@botmesh/core/spi';
import type { NodeConnectionOptions } from '@nats-io/transport-node';
import type { LinkOptions } from './clients/Link.js';

export interface NatsPlace {
  /** `nats://host:port`, `tls://host:port`, or several of them. With a login: `nats://user:password@host:port`. */
  url?: string | readonly string[];
  /** What else `connect` of @nats-io/transport-node takes, with `url`: `user`, `pass`, `token`, `authenticator`, `tls`, `inboxPrefix`. */
  connection?: NodeConnectionOptions;
  /** A connection of @nats-io/transport-node, in place of `url`. Used as it is, and never closed. */
  client?: unknown;
  /** The JetStream domain, where it is not that of the account. */
  domain?: string;
  /** On how many servers of a cluster each stream is kept. Default 1, or what the stream has. Use 3 in a cluster. */
  replicas?: number;
  /** The most that each stream may take, for accounts that demand a limit. Default: none, or what the stream has. */
  maxBytes?: number;
}

export const PLACE_NAMES = {
  url: true,
  connection: true,
  client: true,
  domain: true,
  replicas: true,
  maxBytes: true,
} as const;

const EXPECTED = "Pass url, such as 'nats://localhost:4222', or client, a connection of @nats-io/transport-node.";

/** @throws ConfigError naming what cannot work */
export function linkOptions(
  who: string,
  { client, connection, domain, maxBytes, replicas, url }: NatsPlace,
  times: { readonly timeoutMs: number; readonly connectTimeoutMs: number },
): LinkOptions {
  if ((url === undefined) === (client === undefined)) {
    throw new ConfigError(
      `${who}: expected either url or client, found ${url === undefined ? 'neither' : 'both'}. ${EXPECTED}`,
    );
  }
  if (client !== undefined && connection !== undefined) {
    throw new ConfigError(`${who}: connection goes with url. A client has its own settings.`);
  }
  if (client !== undefined && !isClient(client))
    throw new ConfigError(`${who}: client is no connection to NATS. ${EXPECTED}`);
  if (domain !== undefined && !(typeof domain === 'string' && /^[\w-]+$/.test(domain))) {
    throw new ConfigError(`${who}: domain: expected the name of a JetStream domain.`);
  }
  if (replicas !== undefined && ![1, 2, 3, 4, 5].includes(replicas)) {
    throw new ConfigError(`${who}: replicas: expected 1, 3 or 5.`);
  }
  if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes >= 16 * 1024 * 1024)) {
    throw new ConfigError(`${who}: maxBytes: expected a whole number of bytes from 16 MB up.`);
  }
  return { servers: serversOf(who, url), connection, client, domain, ...times };
}

function serversOf(who: string, url: unknown): readonly string[] | undefined {
  if (url === undefined) return undefined;
  const urls: unknown[] = Array.isArray(url) ? url : [url];
  const isRight =
    urls.length > 0 && urls.every((one) => typeof one === 'string' && /^((nats|tls):\/\/)?[^\s/]+$/.test(one));
  if (!isRight) throw new ConfigError(`${who}: url: expected nats://host:port or tls://host:port, or a list of them.`);
  return urls as string[];
}

function isClient(client: unknown): boolean {
  if (typeof client !== 'object' || client === null) return false;
  const methods = ['publish', 'subscribe', 'request', 'status', 'isClosed', 'close'];
  return methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function');
}
