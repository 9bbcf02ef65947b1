import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRejects } from './claims.js';
import { promised } from './define.js';
import { believes, type Lab } from './Lab.js';

interface Stranger {
  readonly what: string;
  /** What the refusal must name. */
  readonly names: string;
  readonly options: (lab: Lab) => { leaseMs?: number; pretend?: { shards?: number; format?: number } };
}

const STRANGERS: readonly Stranger[] = [
  { what: 'another lease time', names: 'leaseMs', options: ({ leaseMs }) => ({ leaseMs: leaseMs * 2 }) },
  { what: 'another number of shards', names: 'shards', options: () => ({ pretend: { shards: 7 } }) },
  { what: 'another format version', names: 'format', options: () => ({ pretend: { format: 99 } }) },
];

export const configuration = [
  promised(29, undefined, async (lab) => {
    const replicas = (await lab.replicas(2)) as [TestReplica, TestReplica];
    const [a, b] = replicas;
    let told = 0;
    for (const { coordinator } of replicas) {
      for (const event of ['lost', 'superseded', 'quarantine', 'unavailable'] as const) {
        coordinator.on(event, () => told++);
      }
    }
    const turn = await lab.take(a, 'k');
    const next = lab.follow(lab.take(b, 'k'));

    for (const stranger of STRANGERS) await claimRefused(lab, stranger);
    await lab.watch(lab.leaseMs * 1.5);

    claim(believes(turn), 'the holder lost its turn');
    claimEqual([told, next.state], [0, 'waiting'], 'what was told, and the next turn');
    await turn.release();
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');
  }),
];

async function claimRefused(lab: Lab, { what, names, options }: Stranger): Promise<void> {
  const stranger = await lab.replica({ ...options(lab), start: false });
  const started = lab.within(lab.beatMs + lab.slackMs, stranger.coordinator.start(), 'the refusal');
  const error: unknown = await started.then(
    () => undefined,
    (reason: unknown) => reason,
  );

  await claimRejects(started, ['config-mismatch'], `the start with ${what}`);
  claim(String(error).includes(names), `the refusal does not name ${names}: ${String(error)}`);
  await claimRejects(stranger.coordinator.reserve('k'), ['not-started', 'stopped'], 'a call of the refused');
  await lab.sleep(lab.beatMs);
  claimEqual(stranger.timers, 0, 'timers that the refused has set');
}
