import { ConfigError, checkOptionNames } from '@botmesh/core/spi';
import { block, dollars, literal, quoted } from './quoting.js';
import { checkSchema, stepsOf } from './schema.js';

export interface SqlOptions {
  /** Where all tables and functions are. Default `botmesh`. */
  schema?: string;
  /** A role that exists, and is given what a replica needs at run time and nothing more. */
  role?: string;
}

/**
 * The same as a script, for those who let nothing but their own tools change a database: run it as the role that is to own
 * the schema. One transaction; run again it changes nothing, and run on an older version it brings that up.
 *
 * @throws ConfigError for an option that cannot be
 */
export function sql(options: SqlOptions = {}): string {
  checkOptionNames('sql', options, { schema: true, role: true });
  const schema = checkSchema(options.schema);
  const name = quoted(schema);
  const parts = [
    '-- @botmesh/postgres: brings its schema up to date, in one transaction.',
    'begin isolation level read committed;',
    // Whatever the role has there: nothing but this may stand for what is not named in full.
    'set local search_path = pg_catalog, pg_temp;',
    "set local lock_timeout = '60s';",
    'set local statement_timeout = 0;',
    'set local client_min_messages = warning;',
    `select pg_advisory_xact_lock(hashtext('botmesh'), hashtext(${literal(schema)}));`,
    block(
      `if not exists (select from pg_namespace where nspname = ${literal(schema)}) then create schema ${name}; end if;`,
    ),
    block(
      `if to_regclass(${literal(`${name}.migrations`)}) is null then
        create table ${name}.migrations (version integer primary key, applied_at timestamptz not null default now());
      end if;`,
    ),
    ...stepsOf(schema).map(({ sql: step, version }) =>
      block(
        `if not exists (select from ${name}.migrations where version = ${version}) then
execute ${dollars(step)};
insert into ${name}.migrations (version) values (${version});
end if;`,
      ),
    ),
    ...grants(name, options.role),
    'commit;',
  ];
  return `${parts.join('\n')}\n`;
}

/** What a replica needs at run time. Repeated by every version, for what it adds. */
function grants(schema: string, role: unknown): string[] {
  if (role === undefined) return [];
  if (typeof role !== 'string' || role === '' || role.includes('\u0000')) {
    throw new ConfigError('role: expected the name of a role that exists.');
  }
  const to = quoted(role);
  return [
    `grant usage on schema ${schema} to ${to};`,
    `grant select, insert, update, delete on all tables in schema ${schema} to ${to};`,
    `revoke insert, update, delete on ${schema}.migrations from ${to};`,
    `grant usage on all sequences in schema ${schema} to ${to};`,
    `grant execute on all functions in schema ${schema} to ${to};`,
  ];
}
