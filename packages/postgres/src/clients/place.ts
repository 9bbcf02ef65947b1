import { ConfigError } from '@botmesh/core/spi';
import { dialerOf, findLibrary, type Library, recognise } from './libraries.js';
import type { Dialer, DialSettings } from './link.js';
import { checkUrl } from './url.js';

/** Where a database is: exactly one of the two. */
export interface Place {
  readonly url?: string | undefined;
  readonly client?: unknown;
}

/**
 * Refuses what cannot work, without connecting: for constructors.
 *
 * @throws ConfigError naming the option, what was given and what is expected
 */
export function checkPlace({ client, url }: Place): void {
  if ((url === undefined) === (client === undefined)) {
    const given = url === undefined ? 'neither url nor client is given' : 'both url and client are given';
    throw new ConfigError(
      `${given}. Pass exactly one: { url: 'postgres://…' }, or { client } with a Pool or Client of pg, or an instance of postgres.`,
    );
  }
  if (client === undefined) checkUrl('url', url);
  else recognise(client);
}

/** @throws ConfigError when no library is installed */
export async function dialerFor({ client, url }: Place, settings: DialSettings, library?: Library): Promise<Dialer> {
  if (client !== undefined) return dialerOf(client, settings);
  return (library ?? (await findLibrary())).dialer(url!, settings);
}
