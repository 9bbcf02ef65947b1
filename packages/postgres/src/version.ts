import { stateOf } from './clients/failures.js';
import type { Link } from './clients/link.js';
import { ServerUnfitError } from './clients/unfit.js';
import { quoted } from './quoting.js';
import { stepsOf } from './schema.js';

/** @throws ServerUnfitError when another version of this package, a newer one, has set the schema up */
export function refuseNewer(where: string, schema: string, found: number): void {
  const known = newestVersion(schema);
  if (found <= known) return;
  throw new ServerUnfitError(
    'newer',
    `The schema ${quoted(schema)} on ${where} has version ${found}; this version of @botmesh/postgres knows ${known}. Update the package, or name another schema.`,
  );
}

export function newestVersion(schema: string): number {
  return stepsOf(schema).at(-1)?.version ?? 0;
}

/** The version of a schema; 0 where there is none. */
export async function versionIn(link: Link, schema: string): Promise<number> {
  try {
    return Number(await link.query(`select coalesce(max(version), 0) from ${quoted(schema)}.migrations`));
  } catch (error) {
    // Neither the schema nor the table.
    if (/^(?:3F000|42P01)$/.test(stateOf(error) ?? '')) return 0;
    throw error;
  }
}
