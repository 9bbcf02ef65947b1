import { expect, test } from 'vitest';
import { checkImports } from './check-imports.mjs';

const core = (files) => new Map(Object.entries(files).map(([name, text]) => [`packages/core/src/${name}`, text]));
const said = (files) => checkImports(files).map(({ file, line, message }) => `${file}:${line} ${message}`);

const good = {
  'errors.ts': 'export class ConfigError extends Error {}',
  'time/clock.ts': 'export const clock = { now: () => Date.now(), wait: setTimeout };',
  'coordination/types.ts': 'export interface Turn { epoch: number }',
  'coordination/store.ts': "import type { Turn } from './types.js'; export interface Store { turn: Turn }",
  'coordination/StoreCoordinator.ts':
    "import { clock } from '../time/clock.js'; import type { Store } from './store.js'; export const s = (x: Store) => [x, clock];",
  'coordination/replica-id.ts': "import { hostname } from 'node:os'; export const id = hostname() + Math.random();",
  'coordination/MemoryCoordinator.ts': "export { MemoryMesh } from '../testing/MemoryMesh.js';",
  'testing/MemoryMesh.ts': 'export class MemoryMesh {}',
  'pipeline/turn.ts': "import type { Turn } from '../coordination/types.js'; export type T = Turn;",
  'bot/Bot.ts': "import type { T } from '../pipeline/turn.js'; export type B = T;",
  'bot/Bot.test.ts': "import { test } from 'vitest'; import '../testing/MemoryMesh.js'; test('x', () => Date.now());",
  'index.ts': "export type { B } from './bot/Bot.js';",
  'testing.ts': "export { MemoryMesh } from './testing/MemoryMesh.js';",
};

test('a tree in order has no problems', () => {
  expect(said(core(good))).toEqual([]);
});

test.each([
  ['bot/flow.ts', "import '../coordination/StoreCoordinator.js';", 'bot/ imports coordination/StoreCoordinator.ts'],
  ['pipeline/drain.ts', "import '../bot/Bot.js';", 'pipeline/ imports bot/Bot.ts'],
  ['pipeline/drain.ts', "import '../coordination/store.js';", 'pipeline/ imports coordination/store.ts'],
  ['coordination/lease.ts', "import type { T } from '../pipeline/turn.js';", 'coordination/ imports pipeline/turn.ts'],
  ['coordination/lease.ts', "import '../testing/MemoryMesh.js';", 'Only testing.ts, testing/ and tests'],
  ['index.ts', "export * from './testing/MemoryMesh.js';", 'Only testing.ts, testing/ and tests'],
  ['bot/flow.ts', "type M = import('../testing/MemoryMesh.js').MemoryMesh;", 'Only testing.ts, testing/ and tests'],
  ['bot/flow.ts', "await import('../testing/MemoryMesh.js');", 'Only testing.ts, testing/ and tests'],
  ['utils/array.ts', "import '../errors.js';", 'is in no known folder'],
  ['bot/flow.ts', "import ms from 'ms';", 'Core has no dependencies'],
  ['bot/flow.ts', "import { hostname } from 'node:os';", 'Core runs on any platform'],
  ['pipeline/outbox.ts', 'const t = Date.now();', 'uses Date.now'],
  ['pipeline/outbox.ts', 'const t = globalThis.performance.now();', 'uses performance.now'],
  ['pipeline/outbox.ts', 'const t = new Date();', 'uses new Date()'],
  ['coordination/waiting.ts', 'setTimeout(() => {}, 5);', 'uses setTimeout'],
  ['testing/history.ts', 'const r = Math.random;', 'uses Math.random'],
])('%s with %s is refused', (file, text, message) => {
  const problems = said(core({ ...good, [file]: `\n${text}` }));

  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(`packages/core/src/${file}:2 `);
  expect(problems[0]).toContain(message);
});

test('names of clocks in comments, strings, types and methods are no use of a clock', () => {
  const text =
    "// Date.now()\nexport const s = 'Math.random()'; let t: ReturnType<typeof setTimeout>; clock.setTimeout(s);";

  expect(said(core({ 'pipeline/turn.ts': text }))).toEqual([]);
});

test('a circle is reported once, with its way around', () => {
  const files = core({
    'pipeline/a.ts': "import './b.js';",
    'pipeline/b.ts': "import type { C } from './c.js';",
    'pipeline/c.ts': "export * from './a.js';",
  });

  expect(said(files)).toEqual([
    'packages/core/src/pipeline/c.ts:1 closes a circle: a.ts → b.ts → c.ts → a.ts. Move what both need to a third file',
  ]);
});

const redis = (file, text) =>
  new Map([
    ['packages/redis/package.json', '{ "name": "@botmesh/redis", "peerDependencies": { "@botmesh/core": "0" } }'],
    [file, text],
  ]);

test.each([
  ['packages/redis/src/RedisStore.ts', "import '@botmesh/core/spi'; import '@botmesh/core'; import 'node:net';"],
  ['packages/redis/src/Redis.test.ts', "import '@botmesh/core/testing'; import { test } from 'vitest';"],
  ['tests/simulation/a.test.ts', "import '@botmesh/core/testing';"],
  ['tests/bindings/facts.ts', "import '../../packages/baileys/testing/FakeWhatsApp.js';"],
  ['tests/cluster/backends.ts', "import '@botmesh/lab';"],
  ['packages/redis/src/Redis.test.ts', "import '@botmesh/lab';"],
  ['packages/redis/testing/lab.ts', "export * from '@botmesh/lab';"],
  ['examples/live/src/main.ts', "import './other.js'; import '@botmesh/core';"],
])('%s may say %s', (file, text) => {
  expect(said(redis(file, text))).toEqual([]);
});

test.each([
  ['packages/redis/src/RedisStore.ts', "import '@botmesh/core/testing';", 'Only tests import testing'],
  [
    'packages/redis/src/RedisStore.ts',
    "import '@botmesh/core/dist/errors.js';",
    'Use @botmesh/core, @botmesh/core/spi',
  ],
  ['packages/redis/src/RedisStore.ts', "import '../../core/src/errors.js';", 'outside packages/redis/'],
  ['packages/redis/src/RedisStore.ts', "import '@botmesh/lab';", 'Only tests and benches import the lab'],
  ['examples/live/src/main.ts', "import '@botmesh/lab';", 'Only tests and benches import the lab'],
  ['packages/redis/src/RedisStore.ts', "import 'ioredis';", 'Name it in dependencies or peerDependencies'],
  ['tests/model/a.test.ts', "import '../../packages/core/src/errors.js';", 'outside tests/'],
  ['examples/live/src/main.ts', "import '@botmesh/core/testing';", 'Only tests import testing'],
])('%s may not say %s', (file, text, message) => {
  const problems = said(redis(file, text));

  expect(problems).toHaveLength(1);
  expect(problems[0]).toContain(message);
});

test('the lab may use what is for tests, and what it names as its own', () => {
  const manifest = '{ "name": "@botmesh/lab", "dependencies": { "@botmesh/core": "*", "@botmesh/redis": "*" } }';
  const lab = (text) =>
    new Map([
      ['packages/lab/package.json', manifest],
      ['packages/lab/src/a.ts', text],
    ]);

  expect(said(lab("import '@botmesh/core/testing'; import '@botmesh/redis'; import './b.js';"))).toEqual([]);
  expect(said(lab("import 'vitest';"))).toEqual([expect.stringContaining('Name it in dependencies')]);
});
