import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isProgram } from '../programs.js';

export interface NatsProgram {
  readonly path: string;
  readonly version: string;
}

/** Where `scripts/servers.sh` unpacks what is not installed, a folder for each suite. */
const UNPACKED = fileURLToPath(new URL('../../../../.servers', import.meta.url));

let found: readonly NatsProgram[] | undefined;

/** Every nats-server that tests can run on, each version once, the newest first. */
export function natsPrograms(): readonly NatsProgram[] {
  found ??= folders()
    .map((folder) => join(folder, 'nats-server'))
    .filter(isProgram)
    .flatMap(look)
    .filter((one, at, all) => all.findIndex(({ version }) => version === one.version) === at)
    .sort((a, b) => b.version.localeCompare(a.version, 'en', { numeric: true }));
  return found;
}

/** The one to use where any will do: of the version that `BOTMESH_NATS` names, or the newest. */
export function anyNats(): NatsProgram {
  const wanted = process.env.BOTMESH_NATS;
  const first = natsPrograms().find(({ version }) => wanted === undefined || version === wanted);
  if (first === undefined) {
    throw new Error(`nats-server ${wanted ?? ''} is not here. Install it, or run scripts/servers.sh as .ci/run does.`);
  }
  return first;
}

function folders(): string[] {
  const path = (process.env.PATH ?? '').split(delimiter);
  return [...path, '/usr/sbin', ...inside(UNPACKED), ...inside(join(UNPACKED, 'newer'))];
}

function inside(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch {
    return [];
  }
}

/** None when it cannot run, as a program for another system cannot. */
function look(path: string): NatsProgram[] {
  try {
    const said = execFileSync(path, ['--version'], { encoding: 'utf8', timeout: 10_000 });
    const version = /v(\d+\.\d+\.\d+)/.exec(said)?.[1];
    return version === undefined ? [] : [{ path, version }];
  } catch {
    return [];
  }
}
