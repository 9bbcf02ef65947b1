import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SqliteCoordinator } from '@botmesh/sqlite';
import { SqliteTicket } from '../bounds/SqliteTicket.js';
import { ours } from '../ours.js';
import type { Backend } from '../subject.js';

const [turns, accepted] = ours((where) => new SqliteCoordinator({ path: `${where}/mesh.db` }));

/** SQLite on the disk of the temporary folder: what its writes cost is the disk's. */
export const backend: Backend = {
  name: 'sqlite',
  subjects: [
    {
      name: 'plain ticket, pushed',
      isOurs: false,
      loads: ['W1', 'W1h', 'W2', 'W2p', 'W1x4', 'W2x4', 'held', 'idle'],
      open: (at) => SqliteTicket.open(at, 'push'),
    },
    {
      name: 'plain ticket, 2 ms poll',
      isOurs: false,
      loads: ['W1', 'W1h', 'W2', 'W2p', 'W1x4'],
      open: (at) => SqliteTicket.open(at, 'poll'),
    },
    turns,
    accepted,
  ],
  goals: {
    'W2 rate': { on: 'ratio', atLeast: 0.9 },
    'W1h handOverP50': { on: 'ratio', atMost: 1.2 },
    'W1x4 handOverP99': { on: 'value', atMost: 20_000 },
    'W1x4 block': { on: 'value', atMost: 50 },
    'W2x4 block': { on: 'value', atMost: 50 },
    'held cpuShare': { on: 'value', atMost: 1 },
    'W1 share': { on: 'value', atLeast: 45 },
    'crash crash': { on: 'value', atMost: 200 },
  },
  async prepare() {
    const where = mkdtempSync(join(tmpdir(), 'botmesh-bench-'));
    SqliteTicket.prepare(where);
    return { where, remove: async () => rmSync(where, { recursive: true, force: true }) };
  },
};
