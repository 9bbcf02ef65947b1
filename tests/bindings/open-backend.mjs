// For replicas of bindings: a coordinator and a store of whichever backend.
export async function openBackend(backend, { replicaId, leaseMs }) {
  const options = { replicaId, leaseMs };
  if (backend.kind === 'sqlite') {
    const { SqliteCoordinator, SqliteStateStore } = await import('@botmesh/sqlite');
    const { path } = backend;
    return { coordinator: new SqliteCoordinator({ ...options, path }), store: new SqliteStateStore({ path }) };
  }
  if (backend.kind === 'postgres') {
    const { PostgresCoordinator, PostgresStateStore } = await import('@botmesh/postgres');
    const { url } = backend;
    return { coordinator: new PostgresCoordinator({ ...options, url }), store: new PostgresStateStore({ url }) };
  }
  const { RedisCoordinator, RedisStateStore } = await import('@botmesh/redis');
  const { url } = backend;
  return { coordinator: new RedisCoordinator({ ...options, url }), store: new RedisStateStore({ url }) };
}
