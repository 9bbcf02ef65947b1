import type { Grant, LedgerEntry } from '@botmesh/core/spi';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { findDriver } from './driver.js';
import { type Folder, makeFolder } from './lab.test-support.js';
import { SqliteLedger } from './SqliteLedger.js';
import { prepareSchema } from './schema.js';
import { Sql } from './sql.js';

const ME = 1;
const OTHER = 2;
const ERA = 7;

let folder: Folder;
let sql: Sql;
let close: () => void;

beforeEach(async () => {
  folder = makeFolder();
  const database = (await findDriver()).open(folder.file);
  prepareSchema(database, folder.file);
  sql = new Sql(database);
  close = () => database.close();
  sql.run('UPDATE mesh SET era = ?', ERA);
});

afterEach(() => {
  close();
  folder.remove();
});

function store(...entries: (Pick<LedgerEntry, 'key' | 'seq' | 'fence'> & Partial<LedgerEntry>)[]): void {
  const ledger = new SqliteLedger(sql, '{}');
  for (const entry of entries) {
    const whole = { owner: ME, era: ERA, batch: 1, offered: false, message: null, ...entry };
    const queue = ledger.queues.get(whole.key);
    if (queue === undefined) ledger.queues.set(whole.key, [whole] as never);
    else queue.push(whole);
  }
  ledger.flush();
}

function isAsListed(...view: Grant[]): boolean {
  return new SqliteLedger(sql, '{}').isAsListed(ME, view);
}

const HELD = { key: 'a', seq: 10, fence: 11 };
const BEHIND = { key: 'b', seq: 13, fence: 0 };
const BEFORE_IT = { key: 'b', seq: 12, fence: 14, owner: OTHER };

test('a view is the record when it has all tickets of its epoch as they are, in any order', () => {
  store(HELD, BEFORE_IT, BEHIND);

  expect(isAsListed(HELD, BEHIND)).toBe(true);
  expect(isAsListed(BEHIND, HELD)).toBe(true);
});

test('an epoch without tickets lists none', () => {
  store(BEFORE_IT);

  expect(isAsListed()).toBe(true);
});

test.each([
  ['lacks one', [HELD]],
  ['lists one too many', [HELD, BEHIND, { key: 'c', seq: 20, fence: 0 }]],
  ['lists another in place of one', [HELD, { key: 'c', seq: 20, fence: 0 }]],
  ['has another fence', [{ ...HELD, fence: 9 }, BEHIND]],
  ['waits for what it was granted', [{ ...HELD, fence: 0 }, BEHIND]],
])('a view that %s is not the record', (_what, view) => {
  store(HELD, BEFORE_IT, BEHIND);

  expect(isAsListed(...view)).toBe(false);
});

test.each([
  ['is held since before a server change', { ...HELD, era: ERA - 1 }],
  ['was offered and not yet listed', { ...HELD, offered: true }],
  ['stands first and was not granted', { ...HELD, fence: 0 }],
])('a ticket that %s is looked at', (_what, ticket) => {
  store(ticket);

  expect(isAsListed({ key: ticket.key, seq: ticket.seq, fence: ticket.fence })).toBe(false);
});

test('what the step itself has read or changed is not taken from the table', () => {
  store(HELD);
  const ledger = new SqliteLedger(sql, '{}');
  ledger.queues.get('a')?.shift();

  expect(ledger.isAsListed(ME, [HELD])).toBe(false);
});
