import { accessSync, constants, existsSync, lstatSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import { type Database, type DriverName, findDriver } from './driver.js';
import { damaged } from './explain.js';
import { prepareSchema } from './schema.js';
import { Sql } from './sql.js';

/** File systems that several hosts may share, by their number in statfs(2): SQLite's locks cannot be trusted there. */
const NETWORK: Record<number, string> = {
  26985: 'NFS',
  20859: 'SMB',
  4283649346: 'CIFS',
  4266872130: 'SMB2',
  16914839: '9p',
  12805120: 'Ceph',
  1397113167: 'AFS',
  18225520: 'GFS2',
  1952539503: 'OCFS2',
  198183888: 'Lustre',
};

/** Where the kernel shows what it knows: nobody can keep files there. */
const SHOWN: Record<number, string> = { 40864: 'proc', 1650812274: 'sysfs', 1667723888: 'cgroup2' };

/** A file with more in it is not looked through when it is opened: that would hold up the process. */
const LOOKED_THROUGH_BYTES = 4 * 1024 * 1024;

/** An open database file, and which file that is. */
export interface OpenFile {
  readonly database: Database;
  readonly library: DriverName;
  readonly sql: Sql;
  /** Of the SQLite that opened it. */
  readonly version: string;
  /** Of the file and its log: with another one, what was written last may be lost. */
  readonly identity: string;
  /** Of all three files: on others, this connection neither sees nor locks out those who open the path now. */
  readonly place: string;
}

/**
 * `prepare` is called right before the file is opened.
 *
 * @throws ConfigError when the path cannot work, whatever else; what the library throws when it cannot work now
 */
export async function openFile(
  path: string,
  wanted: DriverName | undefined,
  prepare: (library: DriverName) => void,
): Promise<OpenFile> {
  checkPlace(path);
  const driver = await findDriver(wanted);
  prepare(driver.name);
  const database = driver.open(path);
  try {
    // Short: a call blocks the event loop while it waits. Longer waits are made between attempts.
    database.exec('PRAGMA busy_timeout = 2');
    prepareSchema(database, path);
    // From here on waits are made between attempts, which hold up nobody.
    database.exec('PRAGMA busy_timeout = 0; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0');
    lookThrough(database, path);
    const place = placeOf(path);
    if (place === undefined) throw new FilesReplaced(path);
    const sql = new Sql(database);
    const version = String(sql.get('SELECT sqlite_version() AS version')?.version);
    return { database, library: driver.name, sql, version, place, identity: place.slice(0, place.lastIndexOf(' ')) };
  } catch (error) {
    closeQuietly(database);
    throw error;
  }
}

export function closeQuietly(database: Database): void {
  try {
    database.close();
  } catch {
    // It has to write on closing, and the disk is full or gone. Nothing is lost by that.
  }
}

/** The file, its log or its index is not at the path any more: what is written here reaches nobody. */
export class FilesReplaced extends CoordinationUnavailableError {
  constructor(path: string) {
    super('unavailable', `SQLite: ${path}, or its -wal or -shm, was removed or replaced. Leave them to the replicas.`);
  }
}

/**
 * For the inside of a transaction. What happens to the files after that is noticed by the next one.
 *
 * @throws FilesReplaced
 */
export function demandCurrent(path: string, file: OpenFile): void {
  if (!isCurrent(path, file)) throw new FilesReplaced(path);
}

/** Whether `file`, with its log and index, is still what is at `path`. */
export function isCurrent(path: string, file: OpenFile): boolean {
  return placeOf(path) === file.place;
}

/** Device, inode and time of birth of the file, its log and its index: an inode's number alone is used again. */
function placeOf(path: string): string | undefined {
  const parts = [path, `${path}-wal`, `${path}-shm`].map((each) => {
    const found = statSync(each, { bigint: true, throwIfNoEntry: false });
    return found === undefined ? undefined : `${found.dev}:${found.ino}:${found.birthtimeNs}`;
  });
  return parts.includes(undefined) ? undefined : parts.join(' ');
}

function lookThrough(database: Database, path: string): void {
  if (statSync(path).size > LOOKED_THROUGH_BYTES) return;
  const found = database.prepare('PRAGMA quick_check(1)').get()?.quick_check;
  if (found !== 'ok') throw new ConfigError(`SQLite: ${damaged(path)}`);
}

function checkPlace(path: string): void {
  const folder = dirname(path);
  if (!existsSync(folder)) {
    throw new ConfigError(`SQLite: the folder ${folder} does not exist. Make it first.`);
  }
  const { type } = statfsSync(folder);
  const shown = SHOWN[type];
  if (shown !== undefined) throw new ConfigError(`SQLite: ${folder} is in ${shown}, where no files can be kept.`);
  checkFile(path);
  // SQLite opens what it may not write all the same, and fails later.
  accessSync(folder, constants.W_OK | constants.X_OK);
  for (const each of [path, `${path}-wal`, `${path}-shm`]) {
    if (existsSync(each)) accessSync(each, constants.R_OK | constants.W_OK);
  }
  const kind = NETWORK[type];
  if (kind === undefined) return;
  const message = `SQLite: ${folder} is on a network file system (${kind}), where its locks cannot be trusted. Use a local disk, or another backend for several hosts.`;
  throw new ConfigError(message);
}

/** Every process has to see the same log beside the file, which stands under the name that it was opened by. */
function checkFile(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (found.isSymbolicLink()) {
    throw new ConfigError(
      `SQLite: ${path} became a symbolic link. Put a file in its place, or start with its own path.`,
    );
  }
  if (!found.isFile()) throw new ConfigError(`SQLite: ${path} is not a file. Use the path of a file, or of none yet.`);
  if (isMounted(path)) {
    const message = `SQLite: ${path} is mounted by itself: the log beside it would be another for each container. Mount its folder.`;
    throw new ConfigError(message);
  }
  if (found.nlink === 1) return;
  const message = `SQLite: ${path} has ${found.nlink} names (hard links), and under each it would be another mesh. Keep one: copy the file instead.`;
  throw new ConfigError(message);
}

function isMounted(path: string): boolean {
  try {
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
    // A space and the like stand there in octal.
    const shown = path.replace(/[\s\\]/g, (each) => `\\${each.charCodeAt(0).toString(8).padStart(3, '0')}`);
    return mounts.some((line) => line.split(' ')[4] === shown);
  } catch {
    // A system without that list, or one that does not let it be read.
    return false;
  }
}
