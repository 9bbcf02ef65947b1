import type { Figures } from './figures.js';
import { PAGE_SCRIPT, PAGE_STYLE } from './page.js';
import { summaryOf } from './summary.js';
import { isFoundOut, type Trial } from './trial.js';

/** One turn on the page: key, replica, from, to, how it ended, fence, attempt. Times are milliseconds from the start. */
type Bar = readonly [
  key: number,
  replica: number,
  from: number,
  to: number,
  end: number,
  fence: number,
  attempt: number,
];

const ENDS = ['released', 'lost', 'never told'] as const;

interface PageData {
  readonly keys: readonly string[];
  readonly replicas: readonly string[];
  readonly ends: readonly string[];
  readonly endMs: number;
  readonly healedMs: number;
  readonly bars: readonly Bar[];
  readonly faults: readonly { kind: string; from: number; to: number; replica?: number }[];
  readonly losses: readonly number[];
  readonly gaps: readonly (readonly [number, number])[];
  readonly violations: readonly { rule: string; key: number; at: number; text: string }[];
}

/** A page for a person: what a trial came to, and a timeline for each key. One file that needs nothing else. */
export function reportOf(trial: Trial, figures: Figures, replay: string): string {
  const isSound = trial.planted
    ? isFoundOut(trial.violations)
    : trial.violations.length === 0 && trial.failure === undefined;
  const title = `${trial.backend}, seed ${trial.seed}: ${verdict(trial)}`;
  const lines = summaryOf(trial, figures).map(escaped).join('\n');
  const violations = trial.violations.map(
    ({ rule, text }, n) => `<li><a href="#" data-violation="${n}">${rule}</a> ${escaped(text)}</li>`,
  );
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title><style>${PAGE_STYLE}</style></head>
<body class="${isSound ? 'sound' : 'broken'}">
<h1>${escaped(title)}</h1>
<pre>${lines}</pre>
<p>Again: <code>${escaped(replay)}</code></p>
${violations.length === 0 ? '' : `<h2>Violations</h2><ol>${violations.join('\n')}</ol>`}
<h2>Turns</h2>
<p id="legend"></p>
<p class="hint">A line for each replica in each key; a bar is a turn. Grey bands: faults of the servers, across; of one replica, on its
lines. Blue: without any turn. Wheel: closer and farther. Drag: along. Double click: all. Hover: what it is.</p>
<canvas id="timeline"></canvas><div id="tip"></div>
<script type="application/json" id="data">${JSON.stringify(dataOf(trial, figures)).replaceAll('<', '\\u003c')}</script>
<script>${PAGE_SCRIPT}</script>
</body></html>
`;
}

function verdict({ failure, planted, violations }: Trial): string {
  const found = violations.length === 1 ? '1 violation' : `${violations.length} violations`;
  if (planted)
    return isFoundOut(violations) ? `the planted fault was found (${found})` : 'the planted fault was not found';
  if (violations.length > 0) return found;
  return failure === undefined ? 'every promise kept' : 'not judged to the end';
}

function dataOf(trial: Trial, figures: Figures): PageData {
  const { events, startedAt } = trial;
  const since = (at: number): number => Math.round((at - startedAt) * 10) / 10;
  const grants = events.filter((event) => event.kind === 'granted').sort((a, b) => a.at - b.at);
  const keys = [...new Set(grants.map(({ key }) => key))].sort();
  const replicas = [...new Set(grants.map(({ replica }) => replica))].sort(byNumber);
  const ends = new Map<string, { at: number; why: string }>();
  const believed = new Map<string, number>();
  for (const event of events) {
    if (event.kind !== 'ended' && event.kind !== 'held') continue;
    const name = `${event.replica} ${event.fence} ${event.key}`;
    if (event.kind === 'ended') ends.set(name, event);
    else believed.set(name, Math.max(event.at, believed.get(name) ?? 0));
  }
  const gone = new Map(events.flatMap((event) => (event.kind === 'gone' ? [[event.replica, event.at] as const] : [])));
  const bars = grants.map(({ key, replica, fence, at, attempt = 1 }): Bar => {
    const name = `${replica} ${fence} ${key}`;
    const end = ends.get(name);
    // Who goes on believing after the end is shown to do so.
    const to = Math.max(end?.at ?? gone.get(replica) ?? trial.endedAt, believed.get(name) ?? 0);
    const how = end === undefined ? 2 : end.why === 'released' ? 0 : 1;
    return [keys.indexOf(key), replicas.indexOf(replica), since(at), since(to), how, fence, attempt];
  });
  return {
    keys,
    replicas,
    ends: ENDS,
    endMs: since(trial.endedAt),
    healedMs: since(trial.healedAt),
    bars,
    faults: trial.struck.map(({ kind, at, until, replica }) => ({
      kind,
      from: since(at),
      to: since(until),
      ...(replica === undefined ? {} : { replica: replicas.indexOf(replica) }),
    })),
    losses: events.flatMap((event) => (event.kind === 'data-lost' ? [since(event.at)] : [])),
    gaps: figures.gaps.map(({ from, to }) => [since(from), since(to)] as const),
    violations: trial.violations.map(({ rule, key, at, text }) => ({
      rule,
      key: keys.indexOf(key),
      at: since(at),
      text,
    })),
  };
}

function byNumber(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true });
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;');
}
