import { parseArgs } from 'node:util';

/** What the command was asked for. */
export interface LabArguments {
  readonly backend: string;
  readonly minutes: number;
  readonly seed: number;
  readonly replicas: number;
  readonly keys: number;
  readonly leaseMs: number;
  readonly planted: boolean;
  /** The folder that reports go to. */
  readonly reports: string;
}

export class UsageError extends Error {}

export function usage(backends: readonly string[]): string {
  return `Usage: npm run lab -- --backend NAME [options]

Runs replicas in processes of their own on real servers that it starts, harms both, and judges what the replicas saw.
Ends with 0 when every promise was kept, 1 when not, 2 when it could not run.

  --backend NAME    ${backends.join(', ')}; or all, one after the other
  --minutes N       how long replicas are harmed (default 1); beyond 2, in rounds of 2 with a seed each
  --seed N          picks the faults and their times (default: by chance, and printed)
  --replicas N      how many work at once (default 4)
  --keys N          how many chats they share (default 3)
  --lease MS        the lease (default 2000)
  --planted         the control: replicas that believe in what they have lost. Ends with 0 when that is found out
  --reports FOLDER  where the page of each round goes (default: lab-reports)
  --help            this`;
}

const OPTIONS = {
  backend: { type: 'string' },
  minutes: { type: 'string', default: '1' },
  seed: { type: 'string' },
  replicas: { type: 'string', default: '4' },
  keys: { type: 'string', default: '3' },
  lease: { type: 'string', default: '2000' },
  planted: { type: 'boolean', default: false },
  reports: { type: 'string', default: 'lab-reports' },
  help: { type: 'boolean', default: false },
} as const;

/** @throws UsageError that says what to change. Gives undefined for `--help`. */
export function readArguments(args: readonly string[], backends: readonly string[]): LabArguments | undefined {
  const values = parsed(args);
  if (values.help) return undefined;
  const { backend } = values;
  if (backend === undefined) throw new UsageError('--backend is missing.');
  if (backend !== 'all' && !backends.includes(backend)) {
    throw new UsageError(`--backend is ${backend}: expected ${backends.join(', ')} or all.`);
  }
  return {
    backend,
    minutes: number('minutes', values.minutes, 0.05, 24 * 60, false),
    seed: number('seed', values.seed ?? String(Math.floor(Math.random() * 1e6)), 0, 1e9),
    replicas: number('replicas', values.replicas, 2, 50),
    keys: number('keys', values.keys, 1, 1000),
    leaseMs: number('lease', values.lease, 500, 60_000),
    planted: values.planted,
    reports: values.reports,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: OPTIONS }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function number(name: string, text: string, least: number, most: number, isWhole = true): number {
  const value = Number(text);
  const isFit = text.trim() !== '' && least <= value && value <= most && (!isWhole || Number.isInteger(value));
  if (isFit) return value;
  throw new UsageError(`--${name} is ${text}: expected a ${isWhole ? 'whole ' : ''}number from ${least} to ${most}.`);
}
