import { ConfigError } from '@botmesh/core/spi';

export interface Target {
  readonly host: string;
  readonly port: number;
  readonly username: string | undefined;
  readonly password: string | undefined;
  readonly database: number;
  readonly isTls: boolean;
}

const SCHEMES: Readonly<Record<string, boolean>> = {
  'redis:': false,
  'valkey:': false,
  'rediss:': true,
  'valkeys:': true,
};

const EXPECTED = 'Expected redis://[user:password@]host[:port][/database], or rediss://… for TLS';

/**
 * Takes a server's URL apart.
 *
 * @throws ConfigError naming the part that is wrong, and never the password
 */
export function parseUrl(text: unknown): Target {
  const url = parsed(text);
  const isTls = SCHEMES[url.protocol];
  if (isTls === undefined) throw new ConfigError(`url has the scheme '${url.protocol}//'. ${EXPECTED}.`);
  if (url.hostname === '') throw new ConfigError(`url has no host. ${EXPECTED}.`);
  const [extra] = url.searchParams.keys();
  if (extra !== undefined || url.hash !== '') {
    throw new ConfigError(
      `url has '${extra === undefined ? '#' : `?${extra}`}' at its end, which is not known. ${EXPECTED}.`,
    );
  }
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? 6379 : Number(url.port),
    username: decoded(url.username),
    password: decoded(url.password),
    database: databaseOf(url.pathname),
    isTls,
  };
}

function parsed(text: unknown): URL {
  if (typeof text !== 'string') throw new ConfigError(`url is ${typeof text}. ${EXPECTED}.`);
  try {
    return new URL(text);
  } catch {
    // The cause would show the text, and with it the password.
    throw new ConfigError(`url is a string of ${text.length} characters that is no URL. ${EXPECTED}.`);
  }
}

function decoded(part: string): string | undefined {
  if (part === '') return undefined;
  try {
    return decodeURIComponent(part);
  } catch {
    throw new ConfigError("url has a user or password with a bare '%'. Write it with encodeURIComponent.");
  }
}

function databaseOf(path: string): number {
  const name = path.replace(/^\//, '');
  if (name === '') return 0;
  if (/^\d{1,5}$/.test(name)) return Number(name);
  throw new ConfigError(`url has the path '${path}'. Expected the number of a database, such as /0, or nothing.`);
}
