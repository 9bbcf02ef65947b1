// A long run of real processes that are killed, frozen and replaced: npm run soak -- --minutes 10 --seed 7 --backend redis
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const options = { minutes: { type: 'string', default: '10' }, seed: { type: 'string' }, backend: { type: 'string' } };

function refuse(reason) {
  console.error(`soak: ${reason}\nUsage: npm run soak -- [--minutes 10] [--seed 7] [--backend sqlite|redis|postgres]`);
  process.exit(2);
}

function read() {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return refuse(error.message);
  }
}

const { minutes, seed, backend } = read();
if (!(Number(minutes) > 0)) refuse(`--minutes is ${minutes}: expected a number above 0.`);
if (seed !== undefined && !Number.isSafeInteger(Number(seed))) refuse(`--seed is ${seed}: expected a whole number.`);
if (![undefined, 'sqlite', 'redis', 'postgres'].includes(backend))
  refuse(`--backend is ${backend}: expected sqlite, redis or postgres.`);

const env = {
  ...process.env,
  BOTMESH_SOAK_MINUTES: minutes,
  ...(seed === undefined ? {} : { BOTMESH_SEED: seed }),
  ...(backend === undefined ? {} : { BOTMESH_SOAK_BACKEND: backend }),
};
// The processes run what is built.
const steps = [
  ['node_modules/typescript/bin/tsc', '-b'],
  ['node_modules/vitest/vitest.mjs', 'run', 'tests/soak/soak.test.ts'],
];
for (const args of steps) {
  const { status } = spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}
