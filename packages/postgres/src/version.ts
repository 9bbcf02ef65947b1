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

/** The names of the tables and functions that all steps together leave. */
export function partsOf(): { readonly tables: readonly string[]; readonly functions: readonly string[] } {
  const text = stepsOf('botmesh')
    .map(({ sql }) => sql)
    .join('\n');
  const named = (what: string): string[] => {
    const all = text.matchAll(
      new RegExp(`^(create|drop)(?: or replace| unlogged)* ${what} (?:if exists )?"[^.]*"\\.(\\w+)`, 'gm'),
    );
    const names = new Set<string>();
    for (const [, act, name] of all) {
      if (act === 'create') names.add(name!);
      else names.delete(name!);
    }
    return [...names];
  };
  return { tables: named('table'), functions: named('function') };
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
