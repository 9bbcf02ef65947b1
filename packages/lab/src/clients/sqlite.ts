import { SqliteCoordinator } from '@botmesh/sqlite';
import type { OpenCoordinator } from './client.js';

export interface SqliteConnect {
  readonly path: string;
}

export const open: OpenCoordinator<SqliteConnect> = async ({ path }, options) =>
  new SqliteCoordinator({ ...options, path });
