// What `npm test` runs: layers from cheap to dear. A red static layer ends the run; the last line counts truly.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { installPostgres, newestPostgres, otherPostgres } from './postgres-versions.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const minutes = 60_000;
const otherNodes = [22, 24];
/** What may differ there: the language and its timers, and the SQLite that Node brings. */
const onOtherNodes = [
  'packages/core',
  'packages/sqlite/src/conformance',
  'packages/sqlite/src/driver',
  'packages/sqlite/src/long',
  'tests/simulation',
];
/** The lists of steps and the suites of coordinator and inbox, by one of the libraries. */
const onNewestPostgres = [
  ...['packages/postgres/src/steps', 'packages/postgres/src/virtual'],
  ...['-t', "step by step.*by 'pg'|time, by 'pg' (coordinator|inbox)"],
];
const quick = process.argv.includes('--quick');
const bin = (name) => join(root, 'node_modules/.bin', name);

let passed = 0;
let failed = 0;
/** Names of what failed, said again before the count: the end of a long log is what people read. */
const failures = [];

/** Runs a command with its output shown. Resolves to whether it ended with 0 in time; does not reject. */
function run(command, args, { cwd = root, env = {}, timeout = 5 * minutes } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env: { ...process.env, ...env }, stdio: 'inherit', timeout });
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(false);
    });
    child.on('exit', (code, signal) => {
      if (signal !== null) console.error(`${command} ended by ${signal} (limit: ${timeout / minutes} min)`);
      resolve(code === 0);
    });
  });
}

async function check(name, command, args, options) {
  console.log(`\n-- ${name}`);
  const ok = await run(command, args, options);
  if (ok) passed += 1;
  else failed += 1;
  if (ok) return;
  console.log(`-- ${name} failed`);
  failures.push(name);
}

async function build() {
  await check('tsc', bin('tsc'), ['-b', 'tsconfig.json', 'tsconfig.test.json']);
}

async function lint() {
  await check('biome', bin('biome'), ['check', '--error-on-warnings']);
  await check('oxlint', bin('oxlint'), ['--type-aware', '--deny-warnings']);
}

async function imports() {
  await check('check-imports', process.execPath, ['scripts/check-imports.mjs']);
}

async function tests() {
  // Kept: docs/guarantees.md and docs/planted-bugs.md are made of it.
  const report = join(root, 'node_modules/.cache/botmesh/report.json');
  mkdirSync(dirname(report), { recursive: true });
  rmSync(report, { force: true });
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const ok = await run(bin('vitest'), ['run', ...reporters], { timeout: 18.5 * minutes });
  countTests(existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : { testResults: [] }, ok);
}

function countTests({ testResults }, ok) {
  const places = new Map();
  const failedBefore = failed;
  for (const file of testResults) {
    const place = relative(root, file.name).split('/').slice(0, 2).join('/');
    const count = places.get(place) ?? { passed: 0, failed: 0, skipped: 0 };
    for (const { status, fullName, failureMessages } of file.assertionResults) {
      if (status === 'passed') count.passed += 1;
      else if (status === 'failed') count.failed += 1;
      else count.skipped += 1;
      if (status === 'failed') failures.push(`${relative(root, file.name)}: ${fullName}\n${excerpt(failureMessages)}`);
    }
    const brokeOutsideTests = file.status === 'failed' && !file.assertionResults.some((a) => a.status === 'failed');
    if (brokeOutsideTests) count.failed += 1;
    if (brokeOutsideTests) failures.push(`${relative(root, file.name)}: ${excerpt([file.message])}`);
    places.set(place, count);
  }
  for (const [place, count] of [...places].sort(([a], [b]) => a.localeCompare(b))) {
    console.log(`   ${place}: ${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
    passed += count.passed;
    failed += count.failed;
  }
  // An unhandled rejection or a crash fails the run without failing any one test.
  if (ok || failed > failedBefore) return;
  failed += 1;
  failures.push('vitest ended with an error outside of any test: see above');
}

const excerpt = (messages = []) => messages.join('\n').split('\n').slice(0, 6).join('\n').slice(0, 1_000);

async function packages() {
  for (const name of readdirSync(join(root, 'packages'))) {
    const cwd = join(root, 'packages', name);
    const manifest = join(cwd, 'package.json');
    if (!existsSync(manifest) || JSON.parse(readFileSync(manifest, 'utf8')).private) continue;
    await check(`publint ${name}`, bin('publint'), ['--strict'], { cwd });
    await check(`attw ${name}`, bin('attw'), ['--pack', '.', '--profile', 'esm-only'], { cwd });
  }
}

/** Beside each other: most of their time, real-time tests sleep. */
async function versions() {
  await Promise.all([nodeVersions(), postgresNewest()]);
}

async function nodeVersions() {
  const installed = [];
  for (const version of otherNodes) installed.push({ version, node: await installNode(version) });
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...onOtherNodes];
  await Promise.all(
    installed.map(({ version, node }) => {
      const env = { BOTMESH_SIM_RUNS: '200', ...driverOn(version) };
      return check(`tests on Node ${version}`, node, args, { env, timeout: 7 * minutes });
    }),
  );
}

/** What differs from the one that the tests above ran on would show in the functions of the schema, or in what is asked of a server. */
async function postgresNewest() {
  await postgresVersion(newestPostgres, onNewestPostgres);
}

/** All there is, on every version that is supported. */
async function postgresVersions() {
  for (const major of [...otherPostgres, newestPostgres]) await postgresVersion(major, ['packages/postgres']);
}

async function postgresVersion(major, files) {
  const name = `tests on PostgreSQL ${major}`;
  try {
    const env = { BOTMESH_POSTGRES_BIN: installPostgres(major) };
    await check(name, bin('vitest'), ['run', ...files], { env, timeout: 12 * minutes });
  } catch (error) {
    failed += 1;
    failures.push(`${name}: ${error.message}`);
  }
}

/** The installed better-sqlite3 was built for this Node. On another one the tests demand that Node's own SQLite is found. */
function driverOn(version) {
  const isThisOne = process.versions.node.startsWith(`${version}.`);
  return isThisOne ? {} : { BOTMESH_SQLITE_DRIVER: 'node:sqlite' };
}

async function installNode(version) {
  const prefix = join(root, 'node_modules/.cache/botmesh', `node-${version}`);
  const node = join(prefix, 'node_modules/node/bin/node');
  if (existsSync(node)) return node;
  mkdirSync(prefix, { recursive: true });
  // The package fetches its binary in an install script, which npm runs unasked only if it is listed.
  writeFileSync(join(prefix, 'package.json'), '{ "private": true, "allowScripts": { "node": true } }');
  await run('npm', ['install', '--no-save', '--prefix', prefix, `node@${version}`]);
  return node;
}

const layers = [
  { name: 'build', run: build, stops: true },
  { name: 'lint', run: lint, stops: true },
  { name: 'imports', run: imports, stops: true },
  { name: 'unit, conformance, simulation', run: tests, stops: false },
  { name: 'packages', run: packages, stops: false },
  {
    name: `Node ${otherNodes.join(' and ')}, PostgreSQL ${newestPostgres}`,
    run: versions,
    stops: false,
    slow: true,
  },
  ...(process.env.BOTMESH_NEWER_SERVERS === undefined
    ? []
    : [
        {
          name: `PostgreSQL ${[...otherPostgres, newestPostgres].join(', ')}`,
          run: postgresVersions,
          stops: false,
          slow: true,
        },
      ]),
];

const summary = [];
let stopped = false;
for (const layer of layers) {
  if (stopped || (layer.slow && quick)) {
    summary.push(`${layer.name}: not run`);
    continue;
  }
  console.log(`\n== ${layer.name}`);
  const before = { at: performance.now(), passed, failed };
  await layer.run();
  const seconds = ((performance.now() - before.at) / 1000).toFixed(1);
  const line = `${layer.name}: ${passed - before.passed} passed, ${failed - before.failed} failed, ${seconds} s`;
  console.log(`\n== ${line}`);
  summary.push(line);
  stopped = layer.stops && failed > before.failed;
}
console.log(`\n${summary.join('\n')}\n`);
if (failures.length > 0) console.log(`Failed:\n${failures.map((failure) => `- ${failure}`).join('\n')}\n`);
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
