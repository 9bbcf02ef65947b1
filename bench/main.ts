// Measures botmesh beside what it is compared with: `npm run bench`, or `npm run bench -- --quick sqlite W1 W2`.
import { readdirSync } from 'node:fs';
import { parseArgs } from 'node:util';
import type { Backend } from './processes/subject.js';

const IN_PROCESS = 'in-process';
const GROWTH = 'growth';
const drivers = readdirSync(new URL('processes/drivers/', import.meta.url))
  .filter((name) => name.endsWith('.js'))
  .map((name) => name.slice(0, -'.js'.length));

const { values, positionals } = parseArgs({
  options: { quick: { type: 'boolean' }, write: { type: 'boolean' } },
  allowPositionals: true,
});
const isQuick = values.quick === true;
const benches = [IN_PROCESS, ...drivers];
const named = positionals.filter((name) => benches.includes(name));
const only = positionals.filter((name) => !benches.includes(name));

// What others use is installed apart: only where it is asked for.
const byDefault = benches.filter((name) => !name.endsWith('-peers'));

// By itself: a driver has a part of that name, too.
if (positionals[0] === GROWTH) {
  const { benchGrowth } = await import('./growth/main.js');
  const isWritten = values.write === true;
  if (!(await benchGrowth({ isQuick, isWritten, only: positionals.slice(1) }))) process.exitCode = 1;
} else {
  await benchAll();
}

async function benchAll(): Promise<void> {
  for (const name of named.length === 0 ? byDefault : named) {
    if (!(await bench(name))) process.exitCode = 1;
  }
}

async function bench(name: string): Promise<boolean> {
  if (name === IN_PROCESS) {
    // Changes how this process collects garbage: only where it is asked for.
    const { benchInProcess } = await import('./in-process/main.js');
    return benchInProcess(isQuick);
  }
  const { benchProcesses } = await import('./processes/main.js');
  const { backend } = (await import(`./processes/drivers/${name}.js`)) as { backend: Backend };
  const other = only.length === 1 ? backend.others?.[only[0]!] : undefined;
  return other === undefined ? benchProcesses(backend, { isQuick, only }) : other(isQuick);
}
