// Every client library that the package works with, and each of their ways in.

import * as pg from 'pg';
import { Client, Pool } from 'pg';
import postgres, * as postgresModule from 'postgres';
import { type Library, pgLibrary, postgresLibrary } from '../src/clients/libraries.js';
import type { Place } from '../src/clients/place.js';

/** One way to say where the database is. */
export interface TestClient {
  readonly name: string;
  /** For connections by URL. */
  readonly library: Library;
  /** What a user would pass. `close` must be called. */
  readonly make: (url: string) => UserPlace;
}

export interface UserPlace {
  readonly place: Place;
  /** Whether the user's own instance can be used. */
  ping(): Promise<unknown>;
  close(): Promise<void>;
}

const PG = pgLibrary(pg);
const POSTGRES = postgresLibrary(postgresModule);

function byUrl(name: string, library: Library): TestClient {
  return { name, library, make: (url) => ({ place: { url }, ping: async () => 1, close: async () => {} }) };
}

export const urlClients: readonly TestClient[] = [byUrl('pg by url', PG), byUrl('postgres by url', POSTGRES)];

export const testClients: readonly TestClient[] = [
  ...urlClients,
  {
    name: 'a Pool of pg',
    library: PG,
    make: (url) => {
      const pool = new Pool({ connectionString: url, max: 1 });
      pool.on('error', () => {});
      return { place: { client: pool }, ping: () => pool.query('select 1'), close: () => pool.end() };
    },
  },
  {
    name: 'a Client of pg',
    library: PG,
    make: (url) => {
      const client = new Client({ connectionString: url });
      client.on('error', () => {});
      let connecting: Promise<unknown> | undefined;
      return {
        place: { client },
        ping: async () => {
          connecting ??= client.connect();
          await connecting;
          return client.query('select 1');
        },
        close: () => client.end(),
      };
    },
  },
  {
    name: 'an instance of postgres',
    library: POSTGRES,
    make: (url) => {
      const sql = postgres(url, { max: 1 });
      return { place: { client: sql }, ping: () => sql`select 1`, close: () => sql.end() };
    },
  },
];
