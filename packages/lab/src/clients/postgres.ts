import { PostgresCoordinator } from '@botmesh/postgres';
import type { OpenCoordinator } from './client.js';

/** `pool` and `instance` are what a user would pass as `client`. */
export interface PostgresConnect {
  readonly by: 'pool' | 'instance';
  readonly url: string;
}

export const open: OpenCoordinator<PostgresConnect> = async (connect, options) =>
  new PostgresCoordinator({ ...options, client: await clientOf(connect) });

async function clientOf({ by, url }: PostgresConnect): Promise<object> {
  if (by === 'instance') {
    const { default: postgres } = await import('postgres');
    return postgres(url);
  }
  const { Pool } = await import('pg');
  const pool = new Pool({ connectionString: url });
  pool.on('error', () => {});
  return pool;
}
