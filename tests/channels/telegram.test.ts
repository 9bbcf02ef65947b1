// Telegram by webhook over three processes on one Redis: a fake Bot API posts to a balancer before them, and takes what they send,
// while processes are killed, frozen beyond the lease and replaced. Polling is in tests/telegram.
import { expect, test } from 'vitest';
import { redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';
import { Fleet } from '../telegram/Fleet.js';

const CHATS = [1, 2, 3, -4, -5];
const LEASE_MS = 2_000;
/** What the replicas keep to together: less than is written, so that they must. */
const RATE = { perSecond: 15, burst: 5 };

/** How long so many take when all replicas keep to one rate. A network makes single ones come closer. */
const leastSpanMs = (count: number): number => 0.9 * ((count - RATE.burst) / RATE.perSecond) * 1_000;

// C-39, C-57, C-63, C-64
test('Telegram by webhook, one killed, one frozen, then all replaced: each chat in order, none lost, no reply doubled but unknown ones, limits kept', {
  timeout: 120_000,
}, async () => {
  await using fleet = await Fleet.openWithWebhook('Bot', redis, LEASE_MS);
  fleet.rates = { account: RATE };
  const { fake } = fleet;
  const sent = () => fake.calls.filter(({ method, status }) => method === 'sendMessage' && status === 200);
  const answered = (more: number): Promise<void> => {
    const enough = sent().length + more;
    return fake.until('more is answered', () => sent().length >= enough, 60_000);
  };
  const [first, second] = await Promise.all([fleet.launch(), fleet.launch(), fleet.launch()]);
  fleet.startWriting(CHATS, 250);
  await answered(10);

  first.signal('SIGKILL');
  await fleet.launch();
  await answered(10);
  second.signal('SIGSTOP');
  await pause(1.5 * LEASE_MS);
  second.signal('SIGCONT');
  await answered(10);
  for (const old of fleet.replicas.filter(({ isGone }) => !isGone)) {
    await fleet.launch();
    old.signal('SIGTERM');
    expect(await old.gone).toBe(0);
  }
  await fleet.stopWriting();
  await fleet.everythingAnswered();
  // Whoever sends again says so after it is sent.
  await pause(200);

  const unknown = fleet.replicas.reduce((sum, each) => sum + each.unknown, 0);
  const calls = sent();
  console.log(`${calls.length} replies, ${fleet.again.length} of them again, ${unknown} unknown`);
  expect(fleet.told).toEqual(fleet.expected);
  expect(await fleet.remembered()).toEqual(fleet.expected);
  expect(fleet.again.length).toBeLessThanOrEqual(unknown);
  expect(calls.at(-1)!.atMs - calls[0]!.atMs).toBeGreaterThanOrEqual(leastSpanMs(calls.length));
  // Some were refused on the way, or the faults have missed everything.
  expect(fake.deliveries.some(({ status }) => status !== 200)).toBe(true);
});
