// Whether tables of PostgreSQL stay as they are under a million turns: `npm run bench -- postgres growth`.
import pg from 'pg';
import { table } from '../lib/table.js';
import { turnsOf } from './figures.js';
import type { Load } from './loads.js';
import { run } from './run.js';
import type { Backend } from './subject.js';
import { violationsOf } from './violations.js';

const LOAD: Load = {
  ...{ kind: 'closed', name: 'growth', title: '1,000 chats, empty handler', processes: 2, chats: 1_000 },
  ...{ outstanding: 32, handlerMs: 0 },
};
/** Updates that stay within their page need no index entry; the rest of a table's life is up to vacuum. */
const LEAST_HOT = 0.95;
/** The tables of a mesh may take so many times what they took at a tenth of the turns. */
const MOST_GROWTH = 2;

interface Size {
  readonly name: string;
  readonly bytes: number;
  readonly live: number;
  readonly dead: number;
  readonly updates: number;
  readonly hot: number;
}

/** Prints what the tables of `schema` come to. True when they stayed flat, and nothing was done wrong. */
export async function growth(backend: Backend, url: string, schema: string, isQuick: boolean): Promise<boolean> {
  const [runs, runMs, aim] = isQuick ? [2, 1_000, 1_000] : [60, 15_000, 1_000_000];
  const subject = backend.subjects.find(({ isOurs }) => isOurs)!;
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows: settings } = await client.query<{ autovacuum: string }>('show autovacuum');
  console.log(`autovacuum is ${settings[0]?.autovacuum}`);
  let turns = 0;
  let wrong = 0;
  let early = 0;
  let before: readonly Size[] | undefined;
  let after: readonly Size[] = [];
  try {
    for (let at = 0; at < runs && turns < aim; at++) {
      const done = await run(backend, subject, LOAD, { runMs, warmMs: 0 });
      before ??= await sizes(client, schema);
      const submitted = done.outcomes.reduce((sum, outcome) => sum + outcome.submitted, 0);
      const { disorder, losses, overlaps } = violationsOf(turnsOf(done), submitted);
      wrong += overlaps + disorder + losses;
      turns += submitted;
      after = await sizes(client, schema);
      const bytes = after.reduce((sum, size) => sum + size.bytes, 0);
      if (turns <= aim / 10 || early === 0) early = bytes;
      console.log(`${turns.toLocaleString('en')} turns: ${kilobytes(bytes)}, dead rows ${dead(after)}`);
    }
  } finally {
    await client.end();
  }
  const rows = after.map(({ bytes, dead, live, name, ...now }) => {
    const then = before?.find((each) => each.name === name);
    const updates = now.updates - (then?.updates ?? 0);
    const share = updates === 0 ? '' : `${(((now.hot - (then?.hot ?? 0)) / updates) * 100).toFixed(1)} %`;
    return [name, kilobytes(bytes), String(live), String(dead), updates.toLocaleString('en'), share];
  });
  console.log(`\n${table(['table', 'with its indexes', 'rows', 'dead', 'updates', 'of them HOT'], rows)}`);
  const bytes = after.reduce((sum, size) => sum + size.bytes, 0);
  const updates = after.reduce((sum, size) => sum + size.updates, 0);
  const hot = after.reduce((sum, size) => sum + size.hot, 0);
  const isFlat = bytes <= MOST_GROWTH * early && hot >= LEAST_HOT * updates;
  console.log(`${isFlat ? 'flat' : 'grown'}; overlaps, disorder and losses ${wrong}`);
  return (isQuick || isFlat) && wrong === 0;
}

async function sizes(client: pg.Client, schema: string): Promise<readonly Size[]> {
  // What the ended processes did is told to the statistics within a second.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const { rows } = await client.query<Record<keyof Size, string>>(
    `select relname as name, pg_total_relation_size(relid) as bytes, n_live_tup as live, n_dead_tup as dead,
      n_tup_upd as updates, n_tup_hot_upd as hot
    from pg_stat_user_tables where schemaname = $1 and n_tup_ins > 0 order by relname`,
    [schema],
  );
  return rows.map(({ name, ...numbers }) => ({
    name,
    bytes: Number(numbers.bytes),
    live: Number(numbers.live),
    dead: Number(numbers.dead),
    updates: Number(numbers.updates),
    hot: Number(numbers.hot),
  }));
}

function dead(all: readonly Size[]): string {
  return all.reduce((sum, size) => sum + size.dead, 0).toLocaleString('en');
}

function kilobytes(bytes: number): string {
  return `${Math.round(bytes / 1024).toLocaleString('en')} kB`;
}
