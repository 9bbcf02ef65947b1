import { readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { isProgram } from '../programs.js';

/** Where Debian puts the programs of each version. */
const DEBIAN = '/usr/lib/postgresql';

/** The folder of `initdb` and `postgres`: the one that `BOTMESH_POSTGRES_BIN` names, or the newest that is installed. */
export function postgresFolder(): string {
  const wanted = process.env.BOTMESH_POSTGRES_BIN;
  const folders = wanted === undefined ? [...versions(), ...(process.env.PATH ?? '').split(delimiter)] : [wanted];
  const found = folders.find((folder) => isProgram(join(folder, 'initdb')) && isProgram(join(folder, 'postgres')));
  if (found === undefined) {
    throw new Error(
      'PostgreSQL is not here. Install the package postgresql, or name the folder of initdb in BOTMESH_POSTGRES_BIN.',
    );
  }
  return found;
}

/** Of any version: it reads scripts, and does not come with every server. */
export function psql(): string {
  const folders = [postgresFolder(), ...versions(), ...(process.env.PATH ?? '').split(delimiter)];
  const found = folders.map((folder) => join(folder, 'psql')).find(isProgram);
  if (found === undefined) throw new Error('psql is not here. Install the package postgresql-client.');
  return found;
}

/** Undefined, and why in the test's output, when it is not here. */
export function pgBouncer(): string | undefined {
  const folders = ['/usr/sbin', ...(process.env.PATH ?? '').split(delimiter)];
  const found = folders.map((folder) => join(folder, 'pgbouncer')).find(isProgram);
  if (found === undefined) console.warn('No pgbouncer here: its tests do not run. Install it, as .ci/run does.');
  return found;
}

function versions(): string[] {
  try {
    const names = readdirSync(DEBIAN).sort((a, b) => Number(b) - Number(a));
    return names.map((name) => join(DEBIAN, name, 'bin'));
  } catch {
    return [];
  }
}
