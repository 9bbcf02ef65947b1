import { ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import { bare, goneCause, judge, messageOf, stateOf, unavailable } from './failures.js';

/**
 * What has to be changed before a server can be used.
 *
 * - `login`: the user or password is refused, or missing
 * - `database`: there is no database of that name
 * - `certificate`: TLS is wanted on one side only, or the certificate is not trusted
 * - `rights`: the user may not do what is needed
 * - `schema`: its tables are not there, or older than this version of the package, and may not be made here
 * - `newer`: its tables are of a newer version of the package
 * - `standby`: it takes no writes
 * - `pooler`: what listens there hears nothing
 * - `setting`: a setting of the database or the role does not go with the package
 * - `version`: the server is too old
 */
export type UnfitReason =
  | 'login'
  | 'database'
  | 'certificate'
  | 'rights'
  | 'schema'
  | 'newer'
  | 'standby'
  | 'pooler'
  | 'setting'
  | 'version';

/** The server answers, and cannot be used as it is set up: time alone would not mend it. */
export class ServerUnfitError extends ConfigError {
  readonly reason: UnfitReason;

  constructor(reason: UnfitReason, message: string, options?: ErrorOptions) {
    super(message, 'config', options);
    this.reason = reason;
  }
}

const RIGHTS = 'Give it those in "Roles" of the README of @botmesh/postgres';

interface Sign {
  /** The SQLSTATE, or what the message says where there is none. */
  readonly sign: RegExp;
  readonly reason: UnfitReason;
  readonly explain: (where: string) => string;
}

const SIGNS: readonly Sign[] = [
  {
    sign: /no encryption|SSL required/i,
    reason: 'login',
    explain: (where) =>
      `${where} takes no connection like this one: pg_hba.conf has this user, database or host not, or by TLS only. For TLS add ?sslmode=verify-full to the url, or pass a client with ssl: { ca }.`,
  },
  {
    sign: /valid client certificate|certificate required|certificate authentication failed/i,
    reason: 'certificate',
    explain: (where) =>
      `${where} wants a certificate of this user. Pass a client with ssl: { ca, cert, key }, or sslcert and sslkey in the url of pg.`,
  },
  {
    sign: /unsupported startup parameter/i,
    reason: 'pooler',
    explain: (where) =>
      `The pooler at ${where} refuses a setting that the url or client asks for at login. Leave it out, set it for the role, or list it in ignore_startup_parameters.`,
  },
  {
    sign: /statement pooling mode/,
    reason: 'pooler',
    explain: (where) =>
      `The pooler before ${where} gives out connections for single statements, so there are no transactions. Set pool_mode to transaction.`,
  },
  {
    sign: /^28|SCRAM|SASL|password must be a string|(?:password|auth\w*) failed|no such user/i,
    reason: 'login',
    explain: (where) =>
      `${where} refuses the user or password, or wants one. Check both, and pg_hba.conf for the host.`,
  },
  {
    sign: /^3D000|no such database/,
    reason: 'database',
    explain: (where) => `There is no such database on ${where}. Create it, or correct the name.`,
  },
  {
    sign: /self[- ]signed certificate|unable to (?:get|verify)|certificate has expired|does not match certificate|altname/i,
    reason: 'certificate',
    explain: (where) =>
      `The certificate of ${where} is not trusted. Pass a client with ssl: { ca }, the authority that signed it.`,
  },
  {
    sign: /does not support SSL|before secure TLS connection|wrong version number|packet length too long/i,
    reason: 'certificate',
    explain: (where) => `${where} does not speak TLS. Leave sslmode out, or switch ssl on there.`,
  },
  {
    sign: /^42501/,
    reason: 'rights',
    explain: (where) => `The user may not do on ${where} what is needed. ${RIGHTS}.`,
  },
  {
    sign: /^42704/,
    reason: 'rights',
    explain: (where) => `A role that is named is not there on ${where}. Create it first, or correct the name.`,
  },
  {
    sign: /^(?:42P01|42883|3F000|42703)/,
    reason: 'schema',
    explain: (where) =>
      `What the package needs in the schema is not there on ${where}. Run migrate(), or what sql() prints, as the schema's owner.`,
  },
  {
    sign: /^25006/,
    reason: 'standby',
    explain: (where) =>
      `${where} takes no writes: it is a standby, or default_transaction_read_only is on for this user or database. Name the primary.`,
  },
];

/** What a failed first contact means: an error that says what to change, or that the server cannot be reached now. */
export function explain(where: string, thrown: unknown): Error {
  const cause = goneCause(thrown) ?? thrown;
  if (cause instanceof ConfigError || cause instanceof CoordinationUnavailableError) return cause;
  const state = stateOf(cause);
  const found = messageOf(cause);
  const known = SIGNS.find(({ sign }) => (state !== undefined && sign.test(state)) || sign.test(found));
  if (known !== undefined) {
    return new ServerUnfitError(known.reason, `${known.explain(where)} It said: ${found}`, { cause: bare(cause) });
  }
  if (state === undefined) return unavailable(`Could not connect to ${where}: ${found}.`, bare(cause));
  const { error } = judge(where, cause);
  return error instanceof Error ? error : new Error(found);
}
