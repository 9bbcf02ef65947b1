import { lstatSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { ConfigError } from '@botmesh/core/spi';

const DEFAULT = 'botmesh';

/** What SQLite and this package put behind a file's name. */
const TAKEN_ENDS = /(^|-)(wal|shm|journal|replicas)$/;

/** @throws ConfigError when the options have no path that may be one */
export function checkPath(where: string, options: unknown): void {
  if (typeof options === 'string') throw new ConfigError(`${where}: expected { path }, found a string.`);
  const path = (options as { path?: unknown } | null | undefined)?.path;
  if (typeof path !== 'string' || path === '') {
    throw new ConfigError(`${where}: path is missing. Pass { path } with the file to keep it in.`);
  }
  if (path.includes('\0')) throw new ConfigError(`${where}: path has a NUL character in it.`);
  if (path === ':memory:') {
    throw new ConfigError(
      `${where}: path is ':memory:', expected a file. For one process alone, leave the coordinator out.`,
    );
  }
  if (path.startsWith('file:')) throw new ConfigError(`${where}: path is a URL. Pass the path of the file itself.`);
}

/**
 * The file of a namespace: the one at `path`, or one beside it. Once and for all: neither a process that changes its folder
 * later nor another path to the same file leads to another mesh.
 *
 * @throws ConfigError when the namespace cannot be one, or the path is a symbolic link to no file
 */
export function fileOf(path: string, namespace: string = DEFAULT): string {
  const file = realPath(path);
  if (namespace === DEFAULT) return file;
  if (typeof namespace !== 'string' || !/^[\w.-]{1,64}$/.test(namespace)) {
    throw new ConfigError('namespace: expected 1 to 64 letters, digits, dots, underscores or dashes.');
  }
  if (TAKEN_ENDS.test(namespace)) {
    throw new ConfigError(`namespace: '${namespace}' would be a file that SQLite or this package needs. Use another.`);
  }
  return realPath(`${file}-${namespace}`);
}

function realPath(path: string): string {
  const wanted = resolve(path);
  try {
    return realpathSync(wanted);
  } catch {
    if (!isLink(wanted)) return inRealFolder(wanted);
    const message = `SQLite: ${wanted} is a symbolic link to no file. Make the file first, or pass its own path.`;
    throw new ConfigError(message);
  }
}

/** Of a file that is not there yet. If its folder cannot be found either, opening it says so. */
function inRealFolder(path: string): string {
  try {
    return join(realpathSync(dirname(path)), basename(path));
  } catch {
    return path;
  }
}

function isLink(path: string): boolean {
  try {
    return lstatSync(path).isSymbolicLink();
  } catch {
    return false;
  }
}
