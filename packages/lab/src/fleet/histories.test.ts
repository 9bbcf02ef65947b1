import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HistoryEvent } from '@botmesh/core/testing';
import { expect, test } from 'vitest';
import { Histories } from './Histories.js';
import { Holders } from './Holders.js';

const granted = (replica: string, at: number, fence: number): HistoryEvent => ({
  kind: 'granted',
  replica,
  key: 'k',
  at,
  seq: fence,
  fence,
});
const ended = (replica: string, at: number, fence: number): HistoryEvent => ({
  kind: 'ended',
  replica,
  key: 'k',
  at,
  fence,
  why: 'released',
});

test('histories are read as they grow, each event once, and no line before it is whole', () => {
  const folder = mkdtempSync(join(tmpdir(), 'botmesh-histories-'));
  const [a, b] = [join(folder, 'a'), join(folder, 'b')];
  using histories = new Histories(folder);
  const line = `${JSON.stringify(granted('a – ä', 1, 1))}\n`;

  appendFileSync(a, line);
  expect(histories.read()).toHaveLength(1);
  const bytes = Buffer.from(line);
  // In the midst of a character.
  appendFileSync(b, bytes.subarray(0, line.indexOf('–') + 1));
  expect(histories.read()).toHaveLength(1);
  appendFileSync(b, bytes.subarray(line.indexOf('–') + 1));

  expect(histories.read().map((event) => (event.kind === 'granted' ? event.replica : ''))).toEqual(['a – ä', 'a – ä']);
  expect(histories.read()).toHaveLength(2);
  rmSync(folder, { recursive: true });
});

test('a holder holds until its own turn ends, whichever history is read first', () => {
  const holders = new Holders();
  const events = [granted('b', 5, 2), granted('a', 1, 1), ended('a', 4, 1)];

  holders.read(events);
  expect(holders.names).toEqual(['b']);
  events.push(ended('b', 6, 2));
  holders.read(events);

  expect(holders.names).toEqual([]);
});
