import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isProgram } from '../programs.js';

/** A server program on this machine. `cli` speaks to it; `family` tells which of the two it is. */
export interface Program {
  readonly name: string;
  readonly path: string;
  readonly family: 'redis' | 'valkey';
  readonly version: string;
}

/** Where `scripts/servers.sh` unpacks what is not installed, a folder for each suite. */
const UNPACKED = fileURLToPath(new URL('../../../../.servers', import.meta.url));

let found: readonly Program[] | undefined;

/** Every server program that tests can run on, each version once: those installed, and those unpacked. */
export function serverPrograms(): readonly Program[] {
  if (found !== undefined) return found;
  const paths = [process.env.PATH ?? '', ...unpackedFolders()];
  const programs = paths.flatMap((path) => [...look('redis', path), ...look('valkey', path)]);
  found = programs.filter((one, at) => programs.findIndex(({ name }) => name === one.name) === at);
  return found;
}

/** The program to use where any will do: the one that `BOTMESH_SERVER` names (such as `valkey 8.0.1`), or the first. */
export function anyProgram(): Program {
  const wanted = process.env.BOTMESH_SERVER;
  const first = serverPrograms().find(({ name }) => wanted === undefined || name === wanted);
  if (first === undefined) {
    const what = wanted ?? 'a redis-server or valkey-server';
    throw new Error(`${what} is not here. Install it, or run scripts/servers.sh as .ci/run does.`);
  }
  return first;
}

function unpackedFolders(): string[] {
  const folders = process.env.BOTMESH_NEWER_SERVERS === undefined ? [UNPACKED] : [UNPACKED, join(UNPACKED, 'newer')];
  return folders.flatMap((folder) => {
    try {
      return readdirSync(folder).map((name) => join(folder, name));
    } catch {
      return [];
    }
  });
}

function look(family: Program['family'], path: string): Program[] {
  for (const folder of path.split(delimiter)) {
    const file = join(folder, `${family}-server`);
    if (!isProgram(file)) continue;
    const version = versionOf(file);
    return version === undefined ? [] : [{ name: `${family} ${version}`, path: file, family, version }];
  }
  return [];
}

/** Undefined when it cannot run, as a program for another system cannot. */
function versionOf(file: string): string | undefined {
  try {
    return / v=(\d+\.\d+\.\d+)/.exec(execFileSync(file, ['--version'], { encoding: 'utf8', timeout: 10_000 }))?.[1];
  } catch {
    return undefined;
  }
}
