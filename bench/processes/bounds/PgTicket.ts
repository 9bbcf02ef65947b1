import pg from 'pg';
import type { At, Line, Message } from '../subject.js';

/** As many connections as a process would have: its calls go side by side. */
const CONNECTIONS = 8;

interface Taken {
  readonly id: string;
  readonly held: boolean;
}

/**
 * The least over PostgreSQL that keeps a chat in order between processes: a table of tickets, one function to take one, one
 * to give it back, a notification. It knows no death, no pause, no restart and no lost notification: nothing to use.
 */
export class PgTicket implements Line {
  readonly #own: string;
  readonly #schema: string;
  readonly #pool: pg.Pool;
  readonly #ears: pg.Client;
  readonly #waiting = new Map<string, () => void>();
  /** Told of before the answer of `take` came. */
  readonly #early = new Set<string>();
  /** Calls of one chat go one after another: on two connections they could overtake each other. */
  readonly #tails = new Map<string, Promise<unknown>>();

  private constructor(id: number, url: string, schema: string) {
    this.#own = `p${id}`;
    this.#schema = schema;
    this.#pool = new pg.Pool({ connectionString: url, max: CONNECTIONS, options: '-c synchronous_commit=off' });
    this.#pool.on('error', () => {});
    this.#ears = new pg.Client({ connectionString: url });
  }

  /** Once, before the processes start. */
  static async make(url: string, schema: string): Promise<void> {
    await run(
      url,
      `create schema ${schema};
create table ${schema}.q (key text, id bigint generated always as identity, proc text not null, primary key (key, id))
  with (fillfactor = 70);
create function ${schema}.take(k text, p text, out id bigint, out held boolean) language plpgsql as $f$ begin
  perform pg_advisory_xact_lock(hashtextextended(k, 7));
  select not exists (select from ${schema}.q where key = k) into held;
  insert into ${schema}.q (key, proc) values (k, p) returning q.id into id;
end $f$;
create function ${schema}.give(k text, t bigint, p text, out next bigint) language plpgsql as $f$ declare other text; begin
  perform pg_advisory_xact_lock(hashtextextended(k, 7));
  delete from ${schema}.q where key = k and id = t;
  select id, proc into next, other from ${schema}.q where key = k order by id limit 1;
  if next is not null and other <> p then
    perform pg_notify('${schema}_' || other, next::text);
    next := null;
  end if;
end $f$;`,
    );
  }

  static async drop(url: string, schema: string): Promise<void> {
    await run(url, `drop schema ${schema} cascade`);
  }

  static async open({ id, where }: At): Promise<PgTicket> {
    const [url = '', schema = ''] = where.split(' ');
    const line = new PgTicket(id, url, schema);
    await line.#ears.connect();
    line.#ears.on('notification', ({ payload }) => line.#wake(payload ?? ''));
    await line.#ears.query(`listen ${schema}_${line.#own}`);
    return line;
  }

  async submit(chat: string, message: Message): Promise<void> {
    const { held, id } = await this.#inOrder(chat, () => this.#take(chat));
    message.placed();
    if (!held && !this.#early.delete(id)) await new Promise<void>((resolve) => this.#waiting.set(id, resolve));
    await message.handle(Number(id));
    const { rows } = await this.#pool.query<{ next: string | null }>({
      name: 'give',
      text: `select next from ${this.#schema}.give($1, $2, $3)`,
      values: [chat, id, this.#own],
    });
    const next = rows[0]?.next;
    if (next !== null && next !== undefined) this.#wake(next);
  }

  async close(): Promise<void> {
    await this.#pool.end();
    await this.#ears.end();
  }

  async #take(chat: string): Promise<Taken> {
    const { rows } = await this.#pool.query<Taken>({
      name: 'take',
      text: `select id, held from ${this.#schema}.take($1, $2)`,
      values: [chat, this.#own],
    });
    return rows[0]!;
  }

  async #inOrder<T>(chat: string, act: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(chat);
    const acting = before === undefined ? act() : before.then(act);
    this.#tails.set(chat, acting);
    try {
      return await acting;
    } finally {
      if (this.#tails.get(chat) === acting) this.#tails.delete(chat);
    }
  }

  #wake(id: string): void {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (resolve === undefined) this.#early.add(id);
    else resolve();
  }
}

async function run(url: string, text: string): Promise<void> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(text);
  } finally {
    await client.end();
  }
}
