import { readFileSync, statSync } from 'node:fs';

/** The byte of the `-shm` file that SQLite locks for writing. */
const WRITE_LOCK = '120';

/** The processes that hold the lock for writing, but for this one; none where that cannot be seen. */
export function writersOf(path: string): number[] {
  try {
    const inodes = new Set([`${path}-shm`, path].map((each) => String(statSync(each).ino)));
    const pids = readFileSync('/proc/locks', 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => isWriteLock(fields, inodes))
      .map((fields) => Number(fields[4]));
    return [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid);
  } catch {
    return [];
  }
}

/** `1: POSIX ADVISORY WRITE <pid> <major>:<minor>:<inode> <from> <to>`; waiting ones have an arrow behind the number. */
function isWriteLock([, , , kind, , file = '', from]: string[], inodes: ReadonlySet<string>): boolean {
  if (kind !== 'WRITE' || !inodes.has(file.slice(file.lastIndexOf(':') + 1))) return false;
  return from === WRITE_LOCK || Number(from) >= 2 ** 30;
}
