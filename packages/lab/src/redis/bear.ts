import type { RedisServer } from './RedisServer.js';

/** Sets a mesh up on a server that is called `ARGV[1]`. */
export const BIRTH = `
local run = ARGV[1] or string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
return redis.call('HSET', KEYS[1], '#', struct.pack('>ddddd', 0, 0, 0, 0, 0) .. run)`;

/** Makes a mesh that knows its server from the beginning, as the reference does: nothing has to be waited out. */
export async function bear(server: RedisServer, namespace: string, shard: number): Promise<void> {
  await server.ask('EVAL', BIRTH, '1', `{${namespace}:${shard}}:mesh`);
}
