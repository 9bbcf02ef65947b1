import { execFileSync } from 'node:child_process';
import { accessSync, constants, readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A nats-server on this machine. */
export interface Program {
  readonly name: string;
  readonly path: string;
  readonly version: string;
}

/** Where `scripts/servers.sh` unpacks what is not installed, a folder for each suite. */
const UNPACKED = fileURLToPath(new URL('../../../../.servers', import.meta.url));

let found: readonly Program[] | undefined;

/** Every nats-server that tests can run on, each version once: those installed, and those unpacked. */
export function serverPrograms(): readonly Program[] {
  if (found !== undefined) return found;
  const installed = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  const programs = [...installed, ...unpackedFolders()].flatMap(look);
  found = programs.filter((one, at) => programs.findIndex(({ name }) => name === one.name) === at);
  return found;
}

/** The program to use where any will do: the one that `BOTMESH_NATS` names (such as `nats 2.10.27`), or the first. */
export function anyProgram(): Program {
  const wanted = process.env.BOTMESH_NATS;
  const first = serverPrograms().find(({ name }) => wanted === undefined || name === wanted);
  if (first === undefined) {
    throw new Error(`${wanted ?? 'A nats-server'} is not here. Install it, or run scripts/servers.sh as .ci/run does.`);
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

function look(folder: string): Program[] {
  const path = join(folder, 'nats-server');
  if (!isProgram(path)) return [];
  const version = versionOf(path);
  return version === undefined ? [] : [{ name: `nats ${version}`, path, version }];
}

export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Undefined when it cannot run, as a program for another system cannot. */
function versionOf(file: string): string | undefined {
  try {
    return /v(\d+\.\d+\.\d+)/.exec(execFileSync(file, ['--version'], { encoding: 'utf8', timeout: 10_000 }))?.[1];
  } catch {
    return undefined;
  }
}
