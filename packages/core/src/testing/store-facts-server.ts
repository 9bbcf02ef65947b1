import { timing } from '../coordination/timing.js';
import { assertEqual } from './assertions.js';
import { joined, LEASE_MS } from './StoreClient.js';
import type { StoreAbility, StoreFact } from './store-fact.js';
import type { StoreLab } from './store-lab.js';

const needs = (ability: StoreAbility, show: (lab: StoreLab) => Promise<void>): StoreFact => ({
  needs: [ability],
  show,
});

const { quarantineMs } = timing(LEASE_MS);

/** What a store does after it may have lost writes. */
export const SERVER_FACTS: Readonly<Record<string, StoreFact>> = {
  'after a restart nothing new is granted until a replica has watched for a trust and a margin': needs(
    'restart',
    async (lab) => {
      const a = await joined(lab, 'a');
      await lab.restart?.();

      const { seq, fence } = await a.reserve('k');
      const tried = (await a.apply({ op: 'try', key: 'other' })).results;
      const view = [{ key: 'k', seq, fence: 0 }];
      const first = await a.beat(view);
      const almost = await a.beat(view, { watchedMs: quarantineMs - 1 });
      const enough = await a.beat(view, { watchedMs: quarantineMs });

      assertEqual([fence, tried], [0, [null]]);
      assertEqual([first.quarantined, almost.quarantined, enough.quarantined], [true, true, false]);
      assertEqual([first.news.grants.length, almost.news.grants.length, enough.news.grants.length], [0, 0, 1]);
    },
  ),

  'who watched another era vouches for nothing': needs('restart', async (lab) => {
    const a = await joined(lab, 'a');
    await lab.restart?.();

    const former = a.era;
    const { era, quarantined } = await a.beat([], { era: former, watchedMs: 10 * quarantineMs });

    assertEqual([quarantined, era !== former], [true, true]);
  }),

  'during a quarantine a release hands over to nobody, and the waiting are granted after it': needs(
    'restart',
    async (lab) => {
      const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
      const held = await a.reserve('k');
      const next = await b.reserve('k');
      await lab.restart?.();
      await a.release('k', held.seq);
      const during = await b.heard();
      const view = [{ key: 'k', seq: next.seq, fence: 0 }];
      await b.beat(view);

      const { news } = await b.beat(view, { watchedMs: quarantineMs });

      assertEqual(during, []);
      assertEqual(
        news.grants.map((grant) => [grant.seq, grant.fence > held.fence]),
        [[next.seq, true]],
      );
    },
  ),

  'held turns are confirmed by the heartbeats of a quarantine and stay': needs('restart', async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b')];
    const held = { key: 'k', ...(await a.reserve('k')) };
    const next = await b.reserve('k');
    await lab.restart?.();

    const confirmed = await a.beat([held]);
    await a.beat([held], { watchedMs: quarantineMs });
    await b.beat([{ key: 'k', seq: next.seq, fence: 0 }]);

    assertEqual(confirmed.lost, []);
    const [queue] = (await lab.store.inspect()).queues;
    assertEqual([queue?.head.seq, queue?.head.fence], [held.seq, held.fence]);
  }),

  'a head that nobody confirmed gets a new fence when it is first delivered': needs('restart', async (lab) => {
    const a = await joined(lab, 'a');
    const { seq, fence } = await a.reserve('k');
    await lab.restart?.();
    const view = [{ key: 'k', seq, fence: 0 }];
    await a.beat(view);

    const { news } = await a.beat(view, { watchedMs: quarantineMs });

    assertEqual(
      news.grants.map((grant) => [grant.seq, grant.fence > fence]),
      [[seq, true]],
    );
  }),

  'a message offered before a server change is handed over under a new fence': needs('restart', async (lab) => {
    const [a, b] = [await joined(lab, 'a'), await joined(lab, 'b', { adopts: true })];
    const taken = await a.accept('k', 'm');
    await a.leave();
    const before = (await lab.store.inspect()).queues[0]?.head.fence ?? 0;
    await lab.restart?.();
    const during = (await b.beat()).news.adopted;

    const [adopted] = (await b.beat([], { watchedMs: quarantineMs })).news.adopted;

    assertEqual(during, []);
    assertEqual([adopted?.seq, (adopted?.fence ?? 0) > before], [taken?.seq, true]);
  }),

  'an empty store that was not always there is quarantined, and its dead know it': needs('wipe', async (lab) => {
    const a = await joined(lab, 'a');
    const before = await a.reserve('k');
    await lab.wipe?.();

    const asked = await a.beatAnyhow();
    const again = await a.join();

    assertEqual(asked, { kind: 'dead' });
    assertEqual(again.kind === 'joined' && again.quarantined && again.epoch > before.fence, true);
    assertEqual((await a.reserve('k')).fence, 0);
  }),

  'stamps go on rising when the counter was lost': needs('wipe', async (lab) => {
    const a = await joined(lab, 'a');
    const before = await a.reserve('k');
    await lab.wipe?.();
    await a.join();

    const after = await a.reserve('k');
    const view = [{ key: 'k', seq: after.seq, fence: 0 }];
    await a.beat(view);
    const { news } = await a.beat(view, { watchedMs: quarantineMs });

    assertEqual(after.seq > before.fence && (news.grants[0]?.fence ?? 0) > after.seq, true);
  }),

  'what a rollback lost is lost: the view is told so, and only of that': needs('snapshot', async (lab) => {
    const a = await joined(lab, 'a');
    const kept = { key: 'kept', ...(await a.reserve('kept')) };
    const rollBack = await lab.snapshot?.();
    const gone = { key: 'gone', ...(await a.reserve('gone')) };
    await rollBack?.();

    const { lost, quarantined } = await a.beat([kept, gone]);

    assertEqual([lost, quarantined], [[gone], true]);
  }),

  'what a rollback lost does not come again under its number, though the clock was set back a little': {
    needs: ['snapshot', 'moveClock'],
    show: async (lab) => {
      const a = await joined(lab, 'a');
      const rollBack = await lab.snapshot?.();
      const gone = await a.reserve('k');
      await lab.moveClock?.(-3000);
      await rollBack?.();

      const after = await a.reserve('k');

      assertEqual(after.seq > gone.fence, true);
    },
  },

  'what a rollback brought back and its owner has finished is given up by its heartbeat': needs(
    'snapshot',
    async (lab) => {
      const a = await joined(lab, 'a');
      const { seq } = await a.reserve('k');
      const rollBack = await lab.snapshot?.();
      await a.release('k', seq);
      await rollBack?.();

      await a.beat([]);

      assertEqual((await lab.store.inspect()).queues, []);
    },
  ),

  'a replica whose dead epoch a rollback brought back joins under a new one': needs('snapshot', async (lab) => {
    const a = await joined(lab, 'a');
    await a.reserve('k');
    const former = a.epoch;
    const rollBack = await lab.snapshot?.();
    await a.leave();
    await a.join();
    const second = a.epoch;
    await rollBack?.();

    const asked = await a.beatAnyhow();
    await a.join();

    assertEqual([asked, a.epoch > second, second > former], [{ kind: 'dead' }, true, true]);
    assertEqual((await a.apply({ op: 'reserve', key: 'j' })).results.length, 1);
  }),
};
