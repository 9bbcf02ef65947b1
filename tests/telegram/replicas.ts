// Three processes of a Telegram bot: one killed, one frozen, all of them replaced. The platform counts who polls.
import { describe, expect, test } from 'vitest';
import type { Backend } from '../cluster/backends.js';
import { Fleet, type Framework } from './Fleet.js';

const CHATS = [1, 2, 3, -4, -5];
/** Long enough that a busy machine lets no lease run out by itself. */
const LEASE_MS = 3_000;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The facts, for each framework, on a backend that is opened for it alone. */
export function declareReplicas(backend: Backend): void {
  describe.concurrent(`${backend.name}: three processes of a bot`, () => {
    // C-30, C-31, C-36, C-40, C-42, C-46, C-62
    test.each<Framework>(['grammY', 'Telegraf'])(
      'with %s, one killed, one frozen, then all replaced: each chat is answered in order, none is lost, one polls at a time',
      { timeout: 120_000 },
      async (framework) => {
        await using fleet = await Fleet.open(framework, backend, LEASE_MS);
        const { fake } = fleet;
        const answered = (more: number): Promise<void> => {
          const enough = fake.calls.length + more;
          return fake.until('more is answered', () => fake.calls.length >= enough, 60_000);
        };
        const nextLeader = async (act: () => unknown): Promise<void> => {
          const count = fleet.elected.length;
          await act();
          await fake.until('the next one polls', () => fleet.elected.length > count && fake.polling === 1, 60_000);
        };
        await nextLeader(() => Promise.all([fleet.launch(), fleet.launch(), fleet.launch()]));
        fleet.startWriting(CHATS, 60);
        await answered(50);

        await nextLeader(() => fleet.leader.signal('SIGKILL'));
        await fleet.launch();
        await answered(50);

        const sleeper = fleet.leader;
        await nextLeader(() => sleeper.signal('SIGSTOP'));
        await answered(50);
        sleeper.signal('SIGCONT');
        await pause(500);
        await answered(50);
        const repeated = fleet.again.length;

        for (const old of fleet.replicas.filter(({ isGone }) => !isGone)) {
          await fleet.launch();
          old.signal('SIGTERM');
          expect(await old.gone).toBe(0);
        }
        await answered(50);
        await fleet.stopWriting();
        await fleet.everythingAnswered();

        expect(fleet.told).toEqual(fleet.expected);
        expect(await fleet.remembered()).toEqual(fleet.expected);
        // What the killed and the frozen one had sent and not yet marked as handled, one of a chat at most each.
        expect(repeated).toBeLessThanOrEqual(2 * CHATS.length);
        expect(fleet.again).toHaveLength(repeated);
        expect([fake.mostPolling, fake.conflicts]).toEqual([1, 0]);
      },
    );

    // C-39, C-57, C-63, C-64
    test('by webhook behind a balancer, one killed, one frozen, then all replaced: each chat is answered in order, none is lost', {
      timeout: 120_000,
    }, async () => {
      await using fleet = await Fleet.openWithWebhook('grammY', backend, LEASE_MS);
      const { fake } = fleet;
      const answered = (more: number): Promise<void> => {
        const enough = fake.calls.length + more;
        return fake.until('more is answered', () => fake.calls.length >= enough, 60_000);
      };
      const [first, second] = await Promise.all([fleet.launch(), fleet.launch(), fleet.launch()]);
      fleet.startWriting(CHATS, 80);
      await answered(30);

      first.signal('SIGKILL');
      await fleet.launch();
      await answered(30);
      second.signal('SIGSTOP');
      await pause(1.5 * LEASE_MS);
      second.signal('SIGCONT');
      await answered(30);
      const repeated = fleet.again.length;
      for (const old of fleet.replicas.filter(({ isGone }) => !isGone)) {
        await fleet.launch();
        old.signal('SIGTERM');
        expect(await old.gone).toBe(0);
      }
      await fleet.stopWriting();
      await fleet.everythingAnswered();

      expect(fleet.told).toEqual(fleet.expected);
      expect(await fleet.remembered()).toEqual(fleet.expected);
      expect(repeated).toBeLessThanOrEqual(2 * CHATS.length);
      expect(fleet.again).toHaveLength(repeated);
      // Some were refused on the way, or the faults have missed everything.
      expect(fake.deliveries.some(({ status }) => status !== 200)).toBe(true);
    });
  });
}
