import { ConfigError, CoordinationUnavailableError } from '@botmesh/core/spi';
import { clauseOf, judge, replyCode, unavailable, withoutArguments } from './replies.js';

/**
 * What has to be changed before a server can be used.
 *
 * - `login`: the user or password is refused, or missing
 * - `rights`: the user may not do what is needed
 * - `database`: there is no database of that number
 * - `cluster`: it is a node of a Cluster, and was given as a single server
 * - `standalone`: it is a single server, and was given as a Cluster
 * - `certificate`: its certificate is not trusted, or TLS is spoken on one side only
 * - `version`: it is too old
 */
export type UnfitReason = 'login' | 'rights' | 'database' | 'cluster' | 'standalone' | 'certificate' | 'version';

/** The server answers, and cannot be used as it is set up: time alone would not mend it. */
export class ServerUnfitError extends ConfigError {
  readonly reason: UnfitReason;

  constructor(reason: UnfitReason, message: string, options?: ErrorOptions) {
    super(message, 'config', options);
    this.reason = reason;
  }
}

const RIGHTS = 'Give it the rights in "Connections and rights" of the README of @botmesh/redis';

interface Sign {
  readonly sign: RegExp;
  readonly reason: UnfitReason;
  readonly explain: (where: string) => string;
}

const SIGNS: readonly Sign[] = [
  {
    sign: /^WRONGPASS|invalid username-password pair|invalid password/,
    reason: 'login',
    explain: (where) => `${where} refuses the user or password. Check both; the user must be on.`,
  },
  {
    sign: /^NOAUTH|^NOPERM.*\bauth\b/,
    reason: 'login',
    explain: (where) => `${where} wants a login, and none was given. Put user and password into the url or the client.`,
  },
  {
    sign: /NOPERM|no permissions to|can't access at least one of the keys|executing the script can't/i,
    reason: 'rights',
    explain: (where) => `The user may not do on ${where} what is needed. ${RIGHTS}.`,
  },
  {
    sign: /unknown (?:redis )?command/i,
    reason: 'rights',
    explain: (where) =>
      `A command that is needed is not there on ${where}: renamed, or switched off by its provider. ${RIGHTS}.`,
  },
  {
    sign: /DB index is out of range/,
    reason: 'database',
    explain: (where) => `${where} has no database of that number. Take a lower one; 0 is always there.`,
  },
  {
    sign: /SELECT is not allowed in cluster mode|^MOVED|^CROSSSLOT/,
    reason: 'cluster',
    explain: (where) =>
      `${where} is a node of a Cluster, and was given as a single server. Pass { url, cluster: true }, or a Cluster client.`,
  },
  {
    sign: /cluster support disabled/,
    reason: 'standalone',
    explain: (where) =>
      `${where} is a single server, and was given as a Cluster. Leave cluster out, or pass a plain client.`,
  },
  {
    sign: /self[- ]signed certificate|unable to (?:get|verify)|certificate has expired|does not match certificate/i,
    reason: 'certificate',
    explain: (where) =>
      `The certificate of ${where} is not trusted. Pass tls: { ca } with the authority that signed it.`,
  },
  {
    sign: /wrong version number|packet length too long/,
    reason: 'certificate',
    explain: (where) => `${where} does not speak TLS. Write redis:// instead of rediss://, or give its TLS port.`,
  },
];

/** How `within`, ioredis and node-redis say that nothing was heard. */
const SILENT = /no answer within|ETIMEDOUT|Connection timeout/;
/** A server without TLS waits for the end of what it takes for a command, and says nothing. */
const ON_SILENCE = 'Check host, port and firewall, and that it speaks TLS where the url is rediss://, and only there.';

/** What a failed first contact means: an error that says what to change, or that the server cannot be reached now. */
export function explain(where: string, raw: unknown): Error {
  const cause = withoutArguments(raw);
  if (cause instanceof ConfigError || cause instanceof CoordinationUnavailableError) return cause;
  const found = clauseOf(cause);
  const known = SIGNS.find(({ sign }) => sign.test(found));
  if (known !== undefined)
    return new ServerUnfitError(known.reason, `${known.explain(where)} It said: ${found}`, { cause });
  if (replyCode(cause) === undefined) {
    const hint = SILENT.test(found) ? ` ${ON_SILENCE}` : '';
    return unavailable(`Could not connect to ${where}: ${found}.${hint}`, cause);
  }
  const { error } = judge(where, cause);
  return error instanceof CoordinationUnavailableError ? error : unavailable(`${where} answered: ${found}.`, cause);
}
