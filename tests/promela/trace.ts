/** What one line of a trace says happened. */
export interface Happening {
  readonly what: string;
  /** The replica it happened to; for the world, how many ticks. */
  readonly who: number;
  readonly op: string;
  readonly ticket: number;
  readonly isPrompt: boolean;
}

/** Who has what, as the model says and as the real store says: comparable texts. */
export interface Holding {
  /** For each replica, whether its epoch is alive and the ticket by which it believes to hold the key. */
  readonly replicas: string;
  /** The queue, head first: the ticket, who owns it, whether it is granted. */
  readonly queue: string;
  readonly isQuarantined: boolean;
}

export interface Step {
  readonly happening: Happening;
  readonly after: Holding;
}

export interface Trace {
  readonly start: Holding;
  readonly steps: readonly Step[];
  /** The steps from this one on are repeated for ever; undefined where the trace ends. */
  readonly cycleAt: number | undefined;
}

/** Reads what `spin -T` prints of the model. */
export function parseTrace(printed: string): Trace {
  const steps: Step[] = [];
  let start: Holding | undefined;
  let happening: Happening | undefined;
  let cycleAt: number | undefined;
  for (const line of printed.split('\n')) {
    if (line.includes('START OF CYCLE')) cycleAt = steps.length;
    else if (line.startsWith('> ')) happening = happeningOf(line);
    else if (line.startsWith('=') && happening === undefined) start = holdingOf(line);
    else if (line.startsWith('=') && happening !== undefined) steps.push({ happening, after: holdingOf(line) });
  }
  // A step that broke a rule may end before it is told what came of it.
  if (start === undefined) throw new Error(`no trace in: ${printed.slice(0, 300)}`);
  return { start, steps, cycleAt };
}

/** The step that broke a rule, where it was not told what came of it. */
export function lastHappening(printed: string): Happening | undefined {
  const told = printed.split('\n').filter((line) => line.startsWith('> ') || line.startsWith('='));
  const last = told.at(-1);
  return last?.startsWith('> ') === true ? happeningOf(last) : undefined;
}

function happeningOf(line: string): Happening {
  const [what = '', who = '0', op = 'OFF', ticket = '0', prompt = '0'] = line.slice(2).split(' ');
  return { what, who: Number(who), op, ticket: Number(ticket), isPrompt: prompt === '1' };
}

function holdingOf(line: string): Holding {
  const [replicas = '', queue = '', quarantine = ''] = line.slice(1).split('|');
  return { replicas: replicas.trim(), queue: queue.trim(), isQuarantined: quarantine.trim() === '1' };
}
