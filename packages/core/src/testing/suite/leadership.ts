import type { Leadership } from '../../coordination/types.js';
import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects, claimRising } from './claims.js';
import { promised } from './define.js';
import { believes, lossOf, since } from './Lab.js';

export const leadership = [
  promised(17, undefined, async (lab) => {
    const replicas = await lab.replicas(5);
    const [leader, ...rest] = replicas as [TestReplica, ...TestReplica[]];
    const terms: number[] = [];
    const elections: number[] = [];
    replicas.forEach((replica, n) => {
      replica.coordinator.on('elected', ({ name, term }) => {
        if (name === 'name') elections.push(n);
        terms.push(term);
      });
    });
    let current: Leadership | undefined = await lab.lead(leader, 'name');
    const campaigns = [];
    for (const replica of rest) {
      campaigns.push(lab.follow(lab.lead(replica, 'name')));
      await lab.sleep(lab.slackMs);
    }
    const before = rest.map((replica) => structuredClone(replica.counts));

    await lab.watch(lab.leaseMs * 3);
    const while_ = rest.map((replica, n) => since(before[n]!, replica.counts));
    claimEqual(
      while_.map(({ requests }) => requests.apply),
      rest.map(() => 0),
      'requests of candidates that wait, besides heartbeats',
    );
    const most = Math.ceil((lab.leaseMs * 3) / lab.beatMs) + 1;
    claim(
      while_.every(({ requests }) => requests.beat <= most),
      'candidates that wait send more heartbeats',
    );

    for (const [n, campaign] of campaigns.entries()) {
      const counts = rest.map((replica) => structuredClone(replica.counts));
      await current?.resign();
      await lab.until(lab.slackMs, () => campaign.state === 'resolved', `election ${n}`);
      current = campaign.value;
      const pushes = rest.map((replica, at) => since(counts[at]!, replica.counts).pushes.grant);
      claimEqual(
        pushes,
        rest.map((_, at) => (at === n ? 1 : 0)),
        'grants told to the candidates',
      );
    }
    claimEqual(elections, [0, 1, 2, 3, 4], 'the order of the elections');
    claimRising(terms, 'terms');
  }),

  promised(17, 'also while the leader is cut off; names are no keys', async (lab) => {
    const [a, b] = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const old = await lab.lead(a, 'name');
    const chat = await lab.atOnce(lab.take(b, 'name'), 'a chat whose key is the name');
    const next = lab.follow(lab.lead(b, 'name'));

    a.cut();
    await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');

    claimEqual([next.state, lossOf(old)], ['resolved', 'expired'], 'the election, and why the old leader lost');
    claimRising([old.term, next.value?.term ?? 0], 'terms');
    claim(believes(chat), 'the chat was lost');
  }),

  promised(17, 'a campaign ends with its signal and leaves nothing behind', async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const leader = await lab.lead(a, 'name');
    const abort = new AbortController();
    const given = lab.lead(b, 'name', { signal: abort.signal });
    const next = lab.follow(lab.lead(c, 'name'));
    await lab.sleep(lab.slackMs);

    abort.abort(new Error('no more'));
    await claimRejects(given, ['no more'], 'the campaign');
    await claimRejects(b.coordinator.lead('other', { signal: abort.signal }), ['no more'], 'a campaign of nobody');
    await leader.resign();

    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the election of the next candidate');
    await next.value?.resign();
    claimEqual(await lab.places(), 0, 'places left behind');
  }),

  // C-20
  promised(18, undefined, async (lab) => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    const leader = await lab.tryLead(a, 'name');
    claim(leader !== null, 'nobody leads, and an attempt was answered null');

    for (let n = 0; n < 3; n++) claimEqual(await lab.atOnce(lab.tryLead(b, 'name'), 'an attempt'), null, 'an attempt');
    claimEqual(await lab.places(), 1, 'places on record');
    claim(believes(leader), 'an attempt displaced the leader');
    const next = lab.lead(c, 'name');
    await lab.sleep(lab.slackMs);
    await leader.resign();

    await (await lab.atOnce(next, 'the election of the candidate')).resign();
    claimEqual(await lab.places(), 0, 'places left behind');
    const last = await lab.atOnce(lab.tryLead(b, 'name'), 'an attempt after all resigned');
    claim(last !== null, 'nobody leads, and an attempt was answered null');
  }),

  promised(
    18,
    'null while nothing may be granted',
    async (lab) => {
      const [a] = await lab.replicas(2);
      await lab.mesh.server.restart?.();

      claimEqual(await lab.atOnce(lab.tryLead(a!, 'name'), 'an attempt'), null, 'an attempt after a restart');
      claimEqual(await lab.places(), 0, 'places left behind');
      await lab.sleep(lab.leaseMs * 2);
      const leader = await lab.atOnce(lab.tryLead(a!, 'name'), 'an attempt');
      claim(leader !== null, 'nobody leads, and an attempt was answered null');
    },
    { needs: ['restart'] },
  ),

  promised(19, undefined, async (lab) => {
    const [a, b, c, d] = (await lab.replicas(4)) as [TestReplica, TestReplica, TestReplica, TestReplica];
    const first = await lab.lead(a, 'name');
    const campaigns = [];
    for (const replica of [b, c, d]) {
      campaigns.push(lab.lead(replica, 'name'));
      await lab.sleep(lab.slackMs);
    }
    await lab.sleep(lab.leaseMs);

    await first.resign();
    const second = await lab.atOnce(campaigns[0]!, 'the successor of a leader that resigned');
    const stopped = b.coordinator.stop();
    await lab.atOnce(campaigns[1]!, 'the successor of a leader that stopped');
    await stopped;
    claimEqual(lossOf(second), 'stopped', 'why the leader lost');
    c.crash();

    await lab.within(lab.deathBoundMs, campaigns[2]!, 'the successor of a leader that died');
  }),
];
