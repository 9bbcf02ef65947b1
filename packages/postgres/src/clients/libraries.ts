import { ConfigError } from '@botmesh/core/spi';
import type { Dialer, DialSettings } from './link.js';
import { type PgClientClass, type PgConfig, PgDialer } from './pg.js';
import { type Postgres, PostgresJsDialer, type PostgresOptions } from './postgres-js.js';
import { checkUrl } from './url.js';

/** What a library is for this package: a way to connect by URL. */
export interface Library {
  readonly name: 'pg' | 'postgres';
  /** `ssl` is what goes for TLS where the URL says nothing of it. */
  dialer(url: string, settings: DialSettings, ssl?: unknown): Dialer;
}

const LIBRARIES = {
  pg: async () => pgLibrary(await import('pg')),
  postgres: async () => postgresLibrary(await import('postgres')),
} satisfies Record<string, () => Promise<Library>>;

/** The first library that is installed; `wanted` comes before the other. */
export async function findLibrary(wanted?: 'pg' | 'postgres'): Promise<Library> {
  const names = wanted === 'postgres' ? (['postgres', 'pg'] as const) : (['pg', 'postgres'] as const);
  for (const name of names) {
    try {
      return await LIBRARIES[name]();
    } catch (error) {
      if (!isMissing(error, name)) throw error;
    }
  }
  throw new ConfigError(
    'url was given, and no client library is installed. Install one (npm install pg, or postgres), or pass a client of your own as client.',
  );
}

export function pgLibrary(module: unknown): Library {
  const { default: whole, Client = whole?.Client } = module as PgModule;
  return {
    name: 'pg',
    dialer: (url, settings, ssl) =>
      new PgDialer(Client!, { connectionString: checkUrl('url', url), ...tlsBy(url, ssl) }, settings),
  };
}

export function postgresLibrary(module: unknown): Library {
  const postgres = (module as { default: (url: string, options?: object) => { options: PostgresOptions } }).default;
  return {
    name: 'postgres',
    // It connects with the first query only.
    dialer: (url, settings, ssl) => {
      const { options } = postgres(checkUrl('url', url), { max: 1, ...tlsBy(url, ssl) });
      return new PostgresJsDialer(postgres as unknown as Postgres, options, settings);
    },
  };
}

function tlsBy(url: string, ssl: unknown): { ssl?: unknown } {
  return ssl === undefined || /[?&]ssl/i.test(url) ? {} : { ssl };
}

/**
 * A dialer with the settings of an instance of the user.
 *
 * @throws ConfigError naming what was given instead
 */
export async function dialerOf(client: unknown, settings: DialSettings): Promise<Dialer> {
  const known = recognise(client);
  if (known.library === 'pg') return new PgDialer(known.Client, known.config, settings);
  const { default: postgres } = (await import('postgres')) as unknown as { default: Postgres };
  return new PostgresJsDialer(postgres, known.options, settings);
}

export type Recognised =
  | {
      readonly library: 'pg';
      readonly kind: 'pool' | 'client';
      readonly Client: PgClientClass;
      readonly config: PgConfig;
      readonly ssl: unknown;
    }
  | { readonly library: 'postgres'; readonly kind: 'sql'; readonly options: PostgresOptions; readonly ssl: unknown };

/** @throws ConfigError when it is none of the instances that are known */
export function recognise(client: unknown): Recognised {
  if (typeof client === 'function') {
    const { options, unsafe } = client as { options?: PostgresOptions; unsafe?: unknown };
    if (typeof unsafe === 'function' && Array.isArray(options?.host)) {
      return { library: 'postgres', kind: 'sql', options, ssl: options.ssl };
    }
    throw notKnown(`a function${client.name === '' ? '' : ` (${client.name})`} that is no instance of postgres`);
  }
  if (typeof client !== 'object' || client === null) throw notKnown(client === null ? 'null' : typeof client);
  const { Client, connectionParameters, options, query } = client as Record<string, unknown>;
  if (typeof query === 'function' && typeof Client === 'function' && typeof options === 'object' && options !== null) {
    const config = withSecrets(options);
    return { library: 'pg', kind: 'pool', Client: Client as PgClientClass, config, ssl: config.ssl };
  }
  if (typeof query === 'function' && typeof connectionParameters === 'object' && connectionParameters !== null) {
    const own = client.constructor as PgClientClass;
    const config = configOf(client, connectionParameters);
    return { library: 'pg', kind: 'client', Client: own, config, ssl: config.ssl };
  }
  throw notKnown(
    client.constructor?.name === 'Object' ? 'an object that is no client' : `a ${client.constructor?.name}`,
  );
}

/** Whether the statements of an instance of the user have names on the server, which a pooler of transactions may not know. */
export function preparesByName(client: unknown): boolean {
  if (client === undefined) return false;
  const known = recognise(client);
  return known.library === 'postgres' && known.options.prepare !== false;
}

/** What pg hides from printing is left out by a copy as well. */
function withSecrets(options: object): PgConfig {
  const { password, ssl } = options as { password?: unknown; ssl?: unknown };
  return { ...options, ...(password === undefined ? {} : { password }), ...(ssl === undefined ? {} : { ssl }) };
}

function configOf(client: object, parameters: object): PgConfig {
  const { database, host, password, port, ssl, sslNegotiation, user } = client as Record<string, unknown>;
  const { application_name, options } = parameters as Record<string, unknown>;
  return { application_name, database, host, options, password, port, ssl, sslnegotiation: sslNegotiation, user };
}

interface PgModule {
  readonly Client?: PgClientClass;
  readonly default?: { readonly Client: PgClientClass };
}

function notKnown(found: string): ConfigError {
  return new ConfigError(
    `client is ${found}. Expected a Pool or Client of pg, or what postgres(…) returns; or pass url in its place.`,
  );
}

function isMissing(error: unknown, name: string): boolean {
  const { code, message } = error as NodeJS.ErrnoException;
  return code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}'`);
}
