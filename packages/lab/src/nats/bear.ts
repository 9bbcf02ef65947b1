import { randomUUID } from 'node:crypto';
import type { NatsServer } from './NatsServer.js';
import { askJetStream, asOperator } from './streams.js';

/** That of @botmesh/nats. Another one is refused by its first step. */
const LOG_VERSION = 1;

/** Makes a mesh that knows its server from the beginning, as if it had always been this one: nothing has to be waited out. */
export async function bearLog(server: NatsServer, namespace: string, shard: number): Promise<void> {
  const prefix = `botmesh.${namespace}.${shard}`;
  const stream = `BOTMESH_${namespace}_${shard}`;
  await asOperator(server.url, async (client) => {
    const config = { name: stream, subjects: [`${prefix}.*`], storage: 'file', discard: 'new', deny_delete: true };
    await askJetStream(client, `STREAM.CREATE.${stream}`, config);
    const birth = {
      version: LOG_VERSION,
      id: randomUUID(),
      isFresh: true,
      server: client.info!.server_id,
      toldMs: null,
    };
    await client.request(`${prefix}.born`, JSON.stringify(birth));
  });
}
