import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Patch } from './table.js';

/** Tests run from the root, compiled or not. */
const root = process.cwd();

export interface Outcome {
  readonly red: readonly { readonly promise: number; readonly title: string; readonly why: string }[];
  readonly green: number;
  /** The first seed whose run broke a rule. */
  readonly found?: { readonly seed: number; readonly why: string };
  readonly ms: number;
}

/** Runs the suites' tests of `promises`, those with the titles `facts`, and `seeds` simulations, against a copy of the built core with `patches`. */
export async function runPatched(
  patches: readonly Patch[],
  promises: readonly number[] | 'all',
  seeds: number,
  facts: readonly string[] = [],
): Promise<Outcome> {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-mutation-'));
  try {
    prepare(folder, patches);
    const startedMs = performance.now();
    const printed = await node(folder, JSON.stringify({ promises, facts, seeds }));
    return { ...(JSON.parse(printed) as Omit<Outcome, 'ms'>), ms: performance.now() - startedMs };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function prepare(folder: string, patches: readonly Patch[]): void {
  const core = join(folder, 'node_modules/@botmesh/core');
  mkdirSync(core, { recursive: true });
  cpSync(join(root, 'packages/core/package.json'), join(core, 'package.json'));
  cpSync(join(root, 'packages/core/dist'), join(core, 'dist'), { recursive: true });
  cpSync(join(root, 'tests/dist/simulation'), join(folder, 'simulation'), { recursive: true });
  cpSync(join(root, 'tests/mutations/child.mjs'), join(folder, 'child.mjs'));
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  for (const { file, find, replace } of patches) {
    const path = join(core, 'dist', file);
    const parts = readFileSync(path, 'utf8').split(find);
    if (parts.length !== 2) throw new Error(`${file}: expected exactly one place, found ${parts.length - 1}: ${find}`);
    writeFileSync(path, parts.join(replace));
  }
}

/** A loop that a broken rule made endless ends here, and fails. */
const LIMIT_MS = 90_000;

function node(folder: string, argument: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, ['child.mjs', argument], { cwd: folder, timeout: LIMIT_MS }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout.trim().split('\n').at(-1) ?? '');
      else reject(new Error(`the run ended with ${error.message}\n${stderr.slice(0, 2000)}`));
    });
  });
}
