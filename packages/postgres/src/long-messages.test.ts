import { expect, test } from 'vitest';
import { TestProxy, TestServer, urlBy } from '../testing/lab.js';
import { PostgresCoordinator } from './PostgresCoordinator.js';

const LEASE_MS = 2_000;

interface Told {
  readonly code: unknown;
  readonly afterMs: number;
}

/** What a call was refused with, and after how long. */
async function refusalOf(call: Promise<unknown>): Promise<Told> {
  const sinceMs = performance.now();
  const code = await call.then(
    () => 'none',
    (error: { code?: unknown }) => error.code,
  );
  return { code, afterMs: performance.now() - sinceMs };
}

test.concurrent('a message that the way is too narrow for is refused, and one that takes its time arrives', {
  timeout: 60_000,
}, async () => {
  await using server = await TestServer.start();
  await using proxy = await TestProxy.start(server.port);
  const coordinator = new PostgresCoordinator({ url: urlBy(proxy), leaseMs: LEASE_MS });
  const told: string[] = [];
  for (const event of ['unavailable', 'lost', 'superseded'] as const) coordinator.on(event, () => told.push(event));
  await coordinator.start();
  try {
    const held = await coordinator.acquireTurn(await coordinator.reserve('held'));

    // Slower than any link is taken for: it does not get through in its time, however often it is sent.
    proxy.narrow(50);
    const long = refusalOf(coordinator.accept('chat', { id: '1', body: 'x'.repeat(200_000) }));
    const next = coordinator.reserve('other');
    expect((await long).code).toBe('too-long');
    expect((await long).afterMs).toBeLessThan(4 * LEASE_MS);
    await coordinator.acquireTurn(await next);
    expect(told).toEqual([]);
    held.assertHeld();

    // It takes longer than the lease to get there, and does.
    proxy.narrow(400);
    const ticket = await coordinator.accept('chat', { id: '1', body: 'x'.repeat(1_000_000) });
    await coordinator.acquireTurn(ticket!);
    expect(told).toEqual([]);
    held.assertHeld();
  } finally {
    proxy.narrow(Number.POSITIVE_INFINITY);
    await coordinator.stop();
  }
});

test.concurrent('a message that the server refuses is refused, and none else', { timeout: 60_000 }, async () => {
  await using server = await TestServer.start();
  const coordinator = new PostgresCoordinator({ url: server.url(), leaseMs: LEASE_MS });
  await coordinator.start();
  try {
    await server.ask('alter table botmesh.entry add check (length(body) < 100000)');
    const long = refusalOf(coordinator.accept('chat', { id: '1', body: 'x'.repeat(200_000) }));
    const next = coordinator.accept('other', { body: 'short' });

    expect((await long).code).toBe('too-long');
    expect((await long).afterMs).toBeLessThan(2 * LEASE_MS);
    expect(await next).not.toBeNull();
    expect(await coordinator.accept('chat', { id: '1', body: 'short' })).not.toBeNull();
  } finally {
    await coordinator.stop();
  }
});
