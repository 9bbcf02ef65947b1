import { execFile, execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Tests run from the root, compiled or not. */
const MODEL = join(process.cwd(), 'tests/promela/mesh.pml');
const LIMIT_MS = 600_000;

/** Why the model cannot be checked here; undefined when it can. */
export function whyNot(): string | undefined {
  for (const program of ['spin', 'gcc']) {
    try {
      execFileSync(program, [program === 'spin' ? '-V' : '--version'], { stdio: 'ignore' });
    } catch {
      return `${program} is not installed`;
    }
  }
  return undefined;
}

/** What the model is built with: its `#define`s. */
export type Defines = Readonly<Record<string, number>>;

export interface Verdict {
  readonly states: number;
  /** Of the search alone, as it says itself. */
  readonly seconds: number;
  /** What broke, in the words of the checker; undefined when nothing did and the search came to its end. */
  readonly broken: string | undefined;
  /** What it printed when it made the steps to that once more. */
  readonly trail: string | undefined;
}

/** Searches the whole model: for broken assertions, or with `ALL_END` for a run in which something never ends. */
export async function check(defines: Defines): Promise<Verdict> {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-promela-'));
  try {
    await run('spin', [...asArguments(defines), '-a', MODEL], folder);
    const isLiveness = defines.ALL_END === 1;
    const how = isLiveness ? ['-DNFAIR=3'] : ['-DSAFETY', '-DNOCLAIM'];
    // A planted bug is found sooner than code is made faster.
    const speed = defines.BUG === undefined ? '-O1' : '-O0';
    await run('gcc', [speed, '-w', '-DCOLLAPSE', '-DMEMLIM=4000', ...how, '-o', 'pan', 'pan.c'], folder);
    const printed = await run('./pan', isLiveness ? ['-a', '-f', '-m200000'] : ['-m200000'], folder);
    const verdict = judge(printed);
    if (verdict.broken === undefined) return { ...verdict, trail: undefined };
    const trail = await run('spin', [...asArguments(defines), '-T', '-t', '-k', 'mesh.pml.trail', MODEL], folder);
    return { ...verdict, trail };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** One random run of the model, so many of its own small steps long. */
export async function simulate(seed: number, defines: Defines, steps: number): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-promela-'));
  try {
    return await run('spin', [...asArguments(defines), `-n${seed}`, `-u${steps}`, '-T', MODEL], folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function asArguments(defines: Defines): string[] {
  return Object.entries(defines).map(([name, value]) => `-D${name}=${value}`);
}

function judge(printed: string): Omit<Verdict, 'trail'> {
  const states = Number(/^\s*([\d.e+]+) states, stored/m.exec(printed)?.[1]);
  const seconds = Number(/elapsed time ([\d.]+) seconds/.exec(printed)?.[1]);
  const errors = Number(/errors: (\d+)/.exec(printed)?.[1]);
  const broken = /^pan:\d+: (.+?) \(at depth/m.exec(printed)?.[1];
  const isWhole = !/max search depth too small|out of memory|Search not completed/.test(printed);
  if (errors === 0 && isWhole) return { states, seconds, broken: undefined };
  return { states, seconds, broken: broken ?? `the search did not come to its end:\n${printed.slice(0, 1000)}` };
}

function run(program: string, args: readonly string[], cwd: string): Promise<string> {
  const options = { cwd, timeout: LIMIT_MS, maxBuffer: 64 * 2 ** 20 };
  return new Promise((resolve, reject) => {
    execFile(program, [...args], options, (error, stdout, stderr) => {
      // spin and pan end with other numbers than 0 when they found something, and say so.
      if (error !== null && (error.killed || stdout === ''))
        reject(new Error(`${program}: ${error.message}\n${stderr}`));
      else resolve(stdout);
    });
  });
}
