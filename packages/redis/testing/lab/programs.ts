import { execFileSync } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';

/** A server program on this machine. `cli` speaks to it; `family` tells which of the two it is. */
export interface Program {
  readonly name: string;
  readonly path: string;
  readonly family: 'redis' | 'valkey';
  readonly version: string;
}

/** Where `.ci/run` unpacks newer versions, a folder for each. */
const NEWER = (process.env.BOTMESH_NEWER_SERVERS_DIR ?? '').split(delimiter).filter((folder) => folder !== '');

let found: readonly Program[] | undefined;

/** Every server program that tests can run on: those installed, and newer ones where they were unpacked. */
export function serverPrograms(): readonly Program[] {
  found ??= [
    ...look('redis', process.env.PATH ?? ''),
    ...look('valkey', process.env.PATH ?? ''),
    ...NEWER.flatMap((folder) => [...look('redis', folder), ...look('valkey', folder)]),
  ];
  return found;
}

/** The program to use where any will do. */
export function anyProgram(): Program {
  const [first] = serverPrograms();
  if (first === undefined) throw new Error('No redis-server and no valkey-server in PATH. Install one: .ci/run does.');
  return first;
}

/** Says once, in the test's output, why tests of a program do not run. */
export function programNamed(family: 'redis' | 'valkey'): Program | undefined {
  const program = serverPrograms().find((one) => one.family === family);
  if (program === undefined) console.warn(`No ${family}-server in PATH: its tests do not run.`);
  return program;
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
    return / v=(\d+\.\d+\.\d+)/.exec(execFileSync(file, ['--version'], { encoding: 'utf8', timeout: 10_000 }))?.[1];
  } catch {
    return undefined;
  }
}
