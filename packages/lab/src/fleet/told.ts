import type { NatsConnect } from '../clients/nats.js';
import type { PostgresConnect } from '../clients/postgres.js';
import type { RedisConnect } from '../clients/redis.js';
import type { SqliteConnect } from '../clients/sqlite.js';

/** How one replica reaches its server: what the file of its backend in `clients/` understands. */
export type Connect = RedisConnect | PostgresConnect | SqliteConnect | NatsConnect;

/** What a replica's process is told when it starts, as JSON. */
export interface Told {
  readonly name: string;
  /** Which file of `clients/` opens its coordinator. */
  readonly backend: string;
  readonly connect: Connect;
  readonly coordinator: Readonly<Record<string, unknown>>;
  /** The file that it writes what it sees into. */
  readonly history: string;
  readonly seed: number;
  readonly keys: readonly string[];
  /** How many pieces of work it does at once. */
  readonly lanes: number;
  /** Some turns last up to so long. */
  readonly longTurnMs: number;
  /** The planted fault: it goes on believing in what it has lost. */
  readonly forgets: boolean;
}
