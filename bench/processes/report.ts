import { ratio, type Spread, spread } from '../lib/stats.js';
import { FIGURES, type Figure, TOLD } from './figures.js';
import type { Series } from './measure.js';
import type { Backend, Goal } from './subject.js';

/** One line of the table. Ratios are taken round by round. */
export interface Row {
  readonly what: string;
  readonly who: string;
  readonly unit: string;
  readonly value: Spread;
  /** Over the plain program; undefined where there is none. */
  readonly ratio?: Spread;
  readonly goal?: string;
  readonly isMissed?: boolean;
}

/** The figures as rows, in the order in which they are read. */
export function rows({ goals, subjects }: Backend, all: readonly Series[]): Row[] {
  const [plain] = subjects;
  return all.flatMap(({ load, subject, values }) =>
    (TOLD[load.name] ?? []).map((name) => {
      const figure: Figure = FIGURES[name];
      const own = values[name] ?? [];
      const base = all.find((each) => each.load === load && each.subject === plain && subject !== plain)?.values[name];
      const row: Row = {
        what: `${load.name}, ${load.title}: ${figure.title}`,
        who: subject.name,
        unit: figure.unit,
        value: spread(own),
        ...(base === undefined ? {} : { ratio: ratio(own, base) }),
      };
      const goal = subject.isOurs && subject.loads === undefined ? goals[`${load.name} ${name}`] : undefined;
      return goal === undefined ? row : { ...row, ...judged(goal, row) };
    }),
  );
}

function judged({ on, atLeast, atMost }: Goal, { value, ratio: over }: Row): { goal: string; isMissed: boolean } {
  const { median } = (on === 'value' ? value : over) ?? value;
  const goal = atLeast === undefined ? `≤ ${atMost}` : `≥ ${atLeast}`;
  const isMissed = median < (atLeast ?? median) || median > (atMost ?? median);
  return { goal: `${goal}${on === 'ratio' ? ' ×' : ''}`, isMissed };
}
