import { checkOptionNames } from '@botmesh/core/spi';
import type { Link } from './clients/link.js';
import { checkPlace, dialerFor, type Place } from './clients/place.js';
import { explain } from './clients/unfit.js';
import { within } from './clients/within.js';
import { checkSchema } from './schema.js';
import { type SqlOptions, sql } from './script.js';
import { newestVersion, refuseNewer, versionIn } from './version.js';

export interface MigrateOptions extends SqlOptions {
  /** `postgres://…` of a role that may create the schema. Or `client`. */
  url?: string;
  /** A Pool or Client of pg, or an instance of postgres, in place of `url`: its settings are used, not itself. */
  client?: unknown;
}

const CONNECT_MS = 10_000;
const LIMIT_MS = 120_000;

/**
 * Brings the schema up to what this version of the package needs, in one transaction. Who comes at the same time waits and
 * finds it done. Resolves with the version that was there, 0 for none, and the one that is there now.
 *
 * @throws ConfigError that says what to change: a wrong option, a role without the right, a schema of a newer version
 * @throws CoordinationUnavailableError when the server does not answer
 */
export async function migrate(options: MigrateOptions): Promise<{ from: number; to: number }> {
  checkOptionNames('migrate', options, { url: true, client: true, schema: true, role: true });
  const place: Place = { url: options.url, client: options.client };
  checkPlace(place);
  const schema = checkSchema(options.schema);
  const text = sql({ schema, ...(options.role === undefined ? {} : { role: options.role }) });
  const dialer = await dialerFor(place, { timeoutMs: LIMIT_MS, connectTimeoutMs: CONNECT_MS });
  let link: Link | undefined;
  try {
    link = await dialer.dial({ onEnd: () => {} });
    const from = await versionIn(link, schema);
    refuseNewer(dialer.where, schema, from);
    await within(LIMIT_MS, 'migrating', link.query(text));
    return { from, to: newestVersion(schema) };
  } catch (cause) {
    throw explain(dialer.where, cause);
  } finally {
    link?.destroy();
  }
}
