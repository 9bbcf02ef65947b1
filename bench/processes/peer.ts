import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { At, Line, Subject } from './subject.js';

/** Where what others use is installed, apart from the repository's own packages. */
const FOLDER = new URL(import.meta.url.endsWith('.ts') ? '../peers/' : '../../peers/', import.meta.url);

/** Of a file of `bench/peers/`. */
interface Program {
  readonly file: string;
  /** What it exports. */
  readonly name: string;
  /** For programs over several engines. */
  readonly engine?: string;
}

/** A program that others use, as a subject of a bench. Says what to do where it is not installed. */
export function peer(name: string, program: Program, loads: readonly string[]): Subject {
  return { name, isOurs: false, loads, open: (at) => open(program, at) };
}

async function open({ file, name, engine }: Program, at: At): Promise<Line> {
  if (!existsSync(new URL('node_modules', FOLDER))) {
    throw new Error(`The peers are not installed. Run: npm ci --legacy-peer-deps --prefix ${fileURLToPath(FOLDER)}`);
  }
  const programs = (await import(new URL(file, FOLDER).href)) as Record<string, (at: object) => Promise<Line>>;
  return programs[name]!({ ...at, engine });
}
