/** Before this version, SQLite can damage a file that several connections write: https://www.sqlite.org/wal.html#walresetbug */
const SOUND = [3, 51, 3];

/** What to tell whoever runs several processes with this version of SQLite; undefined for a sound one. */
export function warningOf(version: string): string | undefined {
  if (!isOlder(version.split('.').map(Number), SOUND)) return undefined;
  return (
    `SQLite ${version} has a rare fault that damages files which several processes write; ${SOUND.join('.')} has not. ` +
    'Install a newer better-sqlite3 (12.11.1 will do) or run a newer Node (22.23 or 24.21 will do).'
  );
}

let wasTold = false;

/** Once a process, as a warning with the code `BOTMESH_SQLITE_OLD`. */
export function warnOfOldLibrary(version: string): void {
  const warning = warningOf(version);
  if (warning === undefined || wasTold) return;
  wasTold = true;
  process.emitWarning(warning, { type: 'BotmeshWarning', code: 'BOTMESH_SQLITE_OLD' });
}

function isOlder(version: readonly number[], than: readonly number[]): boolean {
  for (const [at, part] of than.entries()) {
    const found = version[at] ?? 0;
    if (found !== part) return found < part;
  }
  return false;
}
