import { createHash } from 'node:crypto';
import type { Connection, Script } from './connection.js';
import { judge } from './replies.js';
import { explain, ServerUnfitError } from './unfit.js';

/**
 * What a server does that weakens a promise, though the mesh works.
 *
 * - `evicts`: it may drop keys when its memory is full
 * - `forgets`: what it was told last is lost when it ends
 * - `splits`: cut off from its replicas, it goes on taking in what will be lost
 */
export type WarningCode = 'evicts' | 'forgets' | 'splits';

export interface ServerWarning {
  readonly code: WarningCode;
  /** What may happen, and what to change. */
  readonly message: string;
}

/**
 * KEYS: one of the shard that does not exist. ARGV: the command that publishes, a channel of the shard. Tries each command
 * of the steps once, so that none is missed only when a replica dies. Answers the first refusal and the command it is of.
 */
export const PROBE = makeScript(`
local refusal, refused = '', ''
local function try(command, ...)
  local answer = redis.pcall(command, ...)
  if refusal == '' and type(answer) == 'table' and answer.err then refusal, refused = answer.err, command end
end
local function info(section)
  local answer = redis.pcall('INFO', section)
  return type(answer) == 'string' and answer or ''
end
local key = KEYS[1]
try('DEL', key)
try('TIME')
try('EXISTS', key)
try('HSET', key, 'f', 'v')
try('HGET', key, 'f')
try('HMGET', key, 'f')
try('HGETALL', key)
try('HSCAN', key, '0')
try('HDEL', key, 'f')
try('RPUSH', key, 'v')
try('LRANGE', key, 0, 0)
try('LTRIM', key, 1, 0)
try('ZADD', key, 0, 'm')
try('ZSCORE', key, 'm')
try('ZCARD', key)
try('ZRANGE', key, 0, 0)
try('ZRANGEBYSCORE', key, 0, 0)
try('ZRANGEBYLEX', key, '-', '+')
try('ZLEXCOUNT', key, '-', '+')
try('ZREM', key, 'm')
try('DEL', key)
try(ARGV[1], ARGV[2], '')
return { refusal, refused, info('server') .. info('memory') .. info('persistence') .. info('replication') }
`);

/**
 * Finds out whether the server, or each node of a Cluster that has one of these shards, can carry a mesh. `tags` are what
 * the keys of the shards begin with. Works without the right to INFO; then there are no warnings.
 *
 * @throws ServerUnfitError saying what to change
 * @throws CoordinationUnavailableError when it cannot be reached, is a replica, or cannot be written to now
 */
export async function checkServer(connection: Connection, tags: readonly string[]): Promise<readonly ServerWarning[]> {
  try {
    const infos = await Promise.all(tags.map((tag) => probe(connection, tag)));
    await hear(connection, `${tags[0]}:push:check`);
    const warnings = infos.flatMap((info) => judgeInfo(connection, info));
    return warnings.filter(({ code }, at) => warnings.findIndex((other) => other.code === code) === at);
  } catch (cause) {
    throw explain(connection.where, cause);
  }
}

async function probe(connection: Connection, tag: string): Promise<string> {
  const publish = connection.isCluster ? 'SPUBLISH' : 'PUBLISH';
  const [key, args] = [`${tag}:check`, [publish, `${tag}:push:check`]];
  // Both, for a script that the server knows needs the one right only, until it is forgotten.
  await connection.command(['EVAL', PROBE.text, '1', key, ...args], key);
  const found = await connection.evalsha(PROBE, [key], args);
  const [refusal, command, info] = found as [string, string, string];
  if (refusal !== '') throw judge(connection.where, new Error(`${refusal} (${command})`)).error;
  return info;
}

async function hear(connection: Connection, channel: string): Promise<void> {
  const end = await connection.subscribe(channel, () => {});
  await end();
}

/** Exported for its test: old servers are not to be had. */
export function judgeInfo(
  { isCluster, where }: Pick<Connection, 'isCluster' | 'where'>,
  info: string,
): ServerWarning[] {
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  demandVersion(where, isCluster, field('redis_version'));
  // Valkey 9 has another name for it.
  const mode = field('redis_mode') ?? field('server_mode');
  if (mode === 'cluster' && !isCluster) throw explain(where, new Error('MOVED'));
  const warnings: ServerWarning[] = [];
  const policy = field('maxmemory_policy') ?? '';
  if (policy.startsWith('allkeys') && field('maxmemory') !== '0') {
    warnings.push({
      code: 'evicts',
      message: `${where} drops keys when its memory is full (maxmemory-policy ${policy}): places and messages can be lost. Set maxmemory-policy noeviction.`,
    });
  }
  if (field('aof_enabled') === '0') {
    warnings.push({
      code: 'forgets',
      message: `${where} has no append-only file: accepted messages are lost when it ends. Set appendonly yes.`,
    });
  }
  const hasReplicas = Number(field('connected_slaves') ?? 0) > 0;
  // It is told of only where it is set.
  if (hasReplicas && !isCluster && field('min_slaves_good_slaves') === undefined) {
    warnings.push({
      code: 'splits',
      message: `${where} has replicas and min-replicas-to-write 0: cut off from them it takes in what is lost when one of them takes over, and for a time two replicas may believe to hold a chat. Set min-replicas-to-write 1 and min-replicas-max-lag below the time after which a failover begins.`,
    });
  }
  return warnings;
}

function demandVersion(where: string, isCluster: boolean, version: string | undefined): void {
  const [major = 0, minor = 0] = (version ?? '').split('.').map(Number);
  // Forbidden or unknown: what is missing will show.
  if (major === 0) return;
  const isEnough = isCluster ? major >= 7 : major > 6 || (major === 6 && minor >= 2);
  if (isEnough) return;
  const wanted = isCluster ? '7.0 or later (for sharded channels)' : '6.2 or later';
  throw new ServerUnfitError('version', `${where} is Redis ${version}. Expected Redis ${wanted}, or Valkey.`);
}

function makeScript(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
