import type { MeshConfig, StoreView } from '@botmesh/core/spi';
import type { Sql } from './sql.js';
import { fromColumn, fromTextOrNull } from './text.js';

export function view(sql: Sql, nowMs: number): StoreView {
  const mesh = sql.get('SELECT config, era, quarantine_ms FROM mesh') ?? {};
  return {
    config: typeof mesh.config === 'string' ? (JSON.parse(mesh.config) as MeshConfig) : null,
    era: mesh.era as number,
    quarantined: mesh.quarantine_ms !== 0,
    replicas: replicas(sql, nowMs),
    queues: queues(sql),
    parked: sql.all('SELECT key, seq, id, body, attempts, error FROM parked ORDER BY seq').map((row) => ({
      key: fromColumn(row.key as string),
      seq: row.seq as number,
      id: fromTextOrNull(row.id),
      body: fromColumn(row.body as string),
      attempts: row.attempts as number,
      error: fromTextOrNull(row.error),
    })),
    remembered: sql.get('SELECT count(*) AS n FROM done')?.n as number,
    paces: sql.get('SELECT count(*) AS n FROM pace')?.n as number,
  };
}

function replicas(sql: Sql, nowMs: number): StoreView['replicas'] {
  const rows = sql.all(
    'SELECT epoch, replica_id, beat, replaced, (SELECT count(*) FROM entry WHERE owner = epoch) AS tickets FROM replica ORDER BY epoch',
  );
  return rows.map((row) => ({
    replicaId: row.replica_id as string,
    epoch: row.epoch as number,
    beatAgeMs: nowMs - (row.beat as number),
    replaced: row.replaced === 1,
    tickets: row.tickets as number,
  }));
}

function queues(sql: Sql): StoreView['queues'] {
  const rows = sql.all(
    'SELECT e.key, e.seq, e.owner, e.fence, q.n FROM (SELECT key, min(seq) AS seq, count(*) AS n FROM entry GROUP BY key) q JOIN entry e ON e.seq = q.seq',
  );
  return rows.map((row) => ({
    key: fromColumn(row.key as string),
    head: { seq: row.seq as number, epoch: row.owner as number, fence: row.fence as number },
    waiting: (row.n as number) - 1,
  }));
}
