/** How users say where NATS is: the same for the coordinator and for state. */
import { ConfigError } from '@botmesh/core/spi';
import type { Authenticator, NodeConnectionOptions } from '@nats-io/transport-node';
import type { LinkOptions } from './clients/Link.js';

export interface NatsPlace {
  /** `nats://host:port`, `tls://host:port`, or several of them. With a login: `nats://user:password@host:port`. */
  url?: string | readonly string[];
  /**
   * What else `connect` of @nats-io/transport-node takes, with `url`: `user`, `pass`, `token`, `authenticator`, `tls`, `inboxPrefix`.
   * `authenticator: credsAuthenticator(readFileSync('bot.creds'))` logs in by JWT credentials.
   */
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
  if (url === undefined) return { servers: [], connection: undefined, client, domain, ...times };
  const { servers, ...settings } = parseUrls(who, Array.isArray(url) ? (url as unknown[]) : [url]);
  return { servers, connection: { ...settings, ...connection, ...logins(who, connection) }, client, domain, ...times };
}

/** The authenticators that were passed. What one throws is for the user to mend, and no fault of the server. */
function logins(who: string, { authenticator }: NodeConnectionOptions = {}): NodeConnectionOptions {
  if (authenticator === undefined) return {};
  return {
    authenticator: [authenticator].flat().map((login: Authenticator) => (nonce) => {
      try {
        return login(nonce);
      } catch (cause) {
        throw new ConfigError(
          `${who}: connection.authenticator: ${String(cause)}. Give it the text of a .creds file, or the seed of an NKEY.`,
          'config',
          { cause },
        );
      }
    }),
  };
}

interface Parsed extends Pick<NodeConnectionOptions, 'user' | 'pass' | 'token' | 'tls'> {
  readonly servers: readonly string[];
}

/** The client library takes no login from a URL, and no scheme for TLS. */
function parseUrls(who: string, urls: readonly unknown[]): Parsed {
  const parsed = urls.map((url) => parseUrl(who, url));
  const [first] = parsed;
  if (first === undefined) throw new ConfigError(`${who}: url is an empty list. ${EXPECTED}`);
  const { host: _, ...settings } = first;
  for (const { host, ...others } of parsed) {
    if (JSON.stringify(others) === JSON.stringify(settings)) continue;
    throw new ConfigError(`${who}: url: ${host} has another login or scheme than the first. Give all the same.`);
  }
  return { servers: parsed.map(({ host }) => host), ...settings };
}

function parseUrl(who: string, text: unknown): Omit<Parsed, 'servers'> & { readonly host: string } {
  const url = typeof text === 'string' ? parts(text) : undefined;
  if (url === undefined) {
    throw new ConfigError(`${who}: url: expected nats://host:port or tls://host:port, or a list of them.`);
  }
  const { host, login, isTls } = url;
  const [name, ...rest] = login === undefined ? [] : login.split(':').map(decodeURIComponent);
  const tls = isTls ? { tls: {} } : {};
  if (name === undefined) return { host, ...tls };
  return rest.length === 0 ? { host, token: name, ...tls } : { host, user: name, pass: rest.join(':'), ...tls };
}

function parts(text: string): { host: string; login: string | undefined; isTls: boolean } | undefined {
  const [, scheme, login, host] =
    /^(?:(nats|tls):\/\/)?(?:([^\s/]*)@)?((?:\[[\da-f:]+\]|[^\s/@:]+)(?::\d+)?)\/?$/i.exec(text) ?? [];
  return host === undefined ? undefined : { host, login, isTls: scheme?.toLowerCase() === 'tls' };
}

function isClient(client: unknown): boolean {
  if (typeof client !== 'object' || client === null) return false;
  const methods = ['publish', 'subscribe', 'request', 'status', 'isClosed', 'close'];
  return methods.every((name) => typeof (client as Record<string, unknown>)[name] === 'function');
}
