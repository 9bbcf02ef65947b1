// npm run lab -- --backend redis --minutes 2 --seed 7
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Backend } from './backends/backend.js';
import { backends } from './backends/backends.js';
import { type LabArguments, readArguments, UsageError, usage } from './trial/arguments.js';
import { figuresOf } from './trial/figures.js';
import { reportOf } from './trial/report.js';
import { summaryOf } from './trial/summary.js';
import { isFoundOut, type Trial, tryBackend } from './trial/trial.js';

const MINUTE_MS = 60_000;
const ROUND_MINUTES = 2;
const names = backends.map(({ name }) => name);
const interrupted = new AbortController();

function asked(): LabArguments {
  try {
    const found = readArguments(process.argv.slice(2), names);
    if (found !== undefined) return found;
    console.log(usage(names));
    process.exit(0);
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`lab: ${error.message}\n\n${usage(names)}`);
    process.exit(2);
  }
}

/** Undefined, and why, where it cannot run. */
function runnable(backend: Backend): Backend | undefined {
  const reason = backend.whyNot();
  if (reason !== undefined) console.error(`lab: ${backend.name} cannot be tried: ${reason}`);
  return reason === undefined ? backend : undefined;
}

/** Whether it came to what it must. */
async function round(backend: Backend, told: LabArguments, seed: number, minutes: number): Promise<boolean> {
  const { keys, leaseMs, planted, replicas, reports } = told;
  const replay =
    `npm run lab -- --backend ${backend.name} --seed ${seed} --minutes ${minutes} ` +
    `--replicas ${replicas} --keys ${keys} --lease ${leaseMs}${planted ? ' --planted' : ''}`;
  console.log(`\n${backend.name}: seed ${seed}, ${minutes} min, ${replicas} replicas, ${keys} keys`);
  const trial = await tryBackend({
    backend,
    seed,
    replicas,
    keys,
    leaseMs,
    planted,
    durationMs: minutes * MINUTE_MS,
    signal: interrupted.signal,
    onProgress: ({ faults, sinceMs, turns }) =>
      console.log(`  ${(sinceMs / 1000).toFixed(0).padStart(4)} s at work: ${turns} turns, ${faults} faults`),
  });
  const figures = figuresOf(trial);
  for (const line of summaryOf(trial, figures)) console.log(line);
  const page = join(reports, `${backend.name}-${seed}${planted ? '-planted' : ''}.html`);
  mkdirSync(reports, { recursive: true });
  writeFileSync(page, reportOf(trial, figures, replay));
  console.log(`page: ${page}`);
  const isGood = isAsItMustBe(trial);
  if (!isGood) {
    const history = page.replace(/html$/, 'jsonl');
    writeFileSync(history, trial.events.map((event) => `${JSON.stringify(event)}\n`).join(''));
    console.log(`history: ${history}\nagain: ${replay}`);
  }
  return isGood;
}

/** A planted fault must be found out; without one nothing may be found. */
function isAsItMustBe({ failure, planted, violations }: Trial): boolean {
  if (interrupted.signal.aborted) return planted || violations.length === 0;
  return planted ? isFoundOut(violations) : violations.length === 0 && failure === undefined;
}

process.on('SIGINT', () => {
  if (interrupted.signal.aborted) process.exit(130);
  console.log('\nlab: ending; once more to end at once');
  interrupted.abort();
});

const told = asked();
const chosen = backends.filter(({ name }) => told.backend === 'all' || name === told.backend);
const here = chosen.flatMap((backend) => runnable(backend) ?? []);
if (here.length === 0) process.exit(2);
const broken: string[] = [];
for (const backend of here) {
  const rounds = Math.ceil(told.minutes / ROUND_MINUTES);
  for (let n = 0; n < rounds && !interrupted.signal.aborted; n++) {
    const minutes = rounds === 1 ? told.minutes : ROUND_MINUTES;
    if (!(await round(backend, told, told.seed + n, minutes))) broken.push(`${backend.name} seed ${told.seed + n}`);
  }
}
console.log(broken.length === 0 ? '\nlab: all as it must be' : `\nlab: broken: ${broken.join(', ')}`);
process.exitCode = broken.length === 0 ? (interrupted.signal.aborted ? 130 : 0) : 1;
