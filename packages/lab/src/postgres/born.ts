import { sql } from '@botmesh/postgres';
import { PostgresServer } from './PostgresServer.js';

/** A server whose mesh is known from the beginning: there is no former life of it to wait out. */
export async function bornServer(
  namespace: string,
  shard: number,
): Promise<{ url: string; close: () => Promise<void> }> {
  const server = await PostgresServer.start();
  await server.ask(sql());
  await server.ask('insert into botmesh.mesh (namespace, shard, run) values ($1, $2, botmesh.run())', [
    namespace,
    String(shard),
  ]);
  return { url: server.url(), close: () => server[Symbol.asyncDispose]() };
}
