import { Bot } from '@botmesh/core';
import { FakeProvider } from '@botmesh/core/testing';
import type { PoolClient } from 'pg';
import { expect, test } from 'vitest';
import { TestServer, until } from '../testing/lab.js';
import { migrate, PostgresCoordinator, PostgresStateStore } from './index.js';

test('a role with the rights of the README can do all there is, and change nothing of the schema', async () => {
  await using server = await TestServer.start();
  await server.ask('create role owner login; create role bot login');
  await server.ask('create database chats owner owner');
  const url = server.url('chats', 'bot');
  await migrate({ url: server.url('chats', 'owner'), role: 'bot' });
  const options = { url, leaseMs: 1200, migrate: false };
  const [first, second] = [new PostgresCoordinator(options), new PostgresCoordinator(options)];
  const state = new PostgresStateStore({ url, ttlMs: 60_000, migrate: false });
  await Promise.all([first.start(), second.start()]);

  const turn = await first.acquireTurn(await first.reserve('chat'));
  const message = await second.accept('chat', { id: '1', body: 'text' });
  await state.save('chat', { n: 1 }, turn.fence);
  expect(await first.tell('chat', 'note')).toBe(true);
  expect((await first.waiting(turn)).length).toBe(1);
  const next = second.acquireTurn(message!);
  await turn.release();
  await (await next).release({ retry: true, error: 'not yet' });
  await first.pace('all', { costMs: 1 });
  await first.parked();
  await state.delete('chat');
  await Promise.all([first.stop(), second.stop()]);

  const provider = new FakeProvider();
  const ends: string[] = [];
  const bot = new Bot({ provider, coordinator: new PostgresCoordinator(options), state, log: () => {} });
  bot.use((ctx) => ctx.transaction((sql: PoolClient) => sql.query('select 1')));
  bot.on('ended', ({ how }) => ends.push(how));
  await bot.start();
  await provider.receive({ chat: 'other', id: '1', text: 'hi' });
  await until('it is handled', () => ends.length > 0);
  await bot.stop({ drainMs: 0 });
  await state.close();

  expect(ends).toEqual(['handled']);
  await expect(migrate({ url, schema: 'another' })).rejects.toMatchObject({ reason: 'rights' });
});

test('migrate refuses a role that is not there, and leaves nothing behind', async () => {
  await using server = await TestServer.start();
  const url = await server.database('chats');

  await expect(migrate({ url, role: 'no_such' })).rejects.toMatchObject({ code: 'config', reason: 'rights' });
  expect(await migrate({ url })).toMatchObject({ from: 0 });
});
