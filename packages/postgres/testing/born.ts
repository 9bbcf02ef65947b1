// For tests of whole processes: a server of their own whose mesh is known from the beginning.
import { makeClient } from '../src/clients/make-client.js';
import { TestServer } from './lab.js';

export async function bornServer(namespace: string, shard: number): Promise<{ url: string; close(): Promise<void> }> {
  const server = await TestServer.start();
  const url = server.url();
  const client = makeClient({ url, timeoutMs: 10_000, connectTimeoutMs: 10_000 });
  await client.open();
  await client.call('insert into botmesh.mesh (namespace, shard, run) values ($1, $2, botmesh.run())', [
    namespace,
    String(shard),
  ]);
  await client.close();
  return { url, close: () => server[Symbol.asyncDispose]() };
}
