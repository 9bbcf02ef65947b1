import type { TestReplica } from '../conformance.js';
import { claim, claimEqual, claimRising } from './claims.js';
import { type Definition, promised } from './define.js';
import { believes, type Lab, lossOf } from './Lab.js';

const MINUTE_MS = 60_000;

/** Nobody dies, nothing is lost, and a waiting ticket stays where it is. */
function clockStep(stepMs: number): Definition {
  const body = async (lab: Lab): Promise<void> => {
    const [a, b, c] = (await lab.replicas(3)) as [TestReplica, TestReplica, TestReplica];
    let lost = 0;
    for (const { coordinator } of [a, c]) {
      for (const event of ['lost', 'superseded', 'unavailable', 'replaced'] as const) {
        coordinator.on(event, () => lost++);
      }
    }
    const turn = await lab.take(a, 'k');
    const next = lab.follow(lab.take(b, 'k'));
    await lab.sleep(lab.leaseMs * 1.5);

    await lab.mesh.server.stepClock?.(stepMs);
    await lab.watch(lab.leaseMs * 2);
    claim(believes(turn), 'the holder lost its turn');
    claimEqual([lost, next.state], [0, 'waiting'], 'losses told of, and the next turn');
    await turn.release();
    await lab.until(lab.slackMs, () => next.state === 'resolved', 'the next turn');

    const last = lab.take(c, 'k');
    await lab.sleep(lab.beatMs);
    b.crash();
    await lab.sleep(lab.leaseMs / 2);
    await lab.mesh.server.stepClock?.(stepMs);
    // Only the next heartbeat after a step back shows that the dead one's last is not to come.
    const boundMs = lab.deathBoundMs + lab.beatMs;
    const turnOfLast = await lab.within(boundMs, last, 'the turn after a death, from the step on');
    claimRising([turn.fence, next.value?.fence ?? 0, turnOfLast.fence], 'fences');
    claimEqual(lost, 0, 'losses told of');
  };
  // C-75
  return promised(28, stepMs === MINUTE_MS ? undefined : `by ${stepMs / MINUTE_MS} min`, body, {
    needs: ['stepClock'],
  });
}

export const clockSteps = [
  clockStep(MINUTE_MS),
  clockStep(-MINUTE_MS),
  clockStep(10 * MINUTE_MS),
  clockStep(-10 * MINUTE_MS),

  promised(
    28,
    'a step too small to be noticed ends no trust early',
    async (lab) => {
      const a = await lab.replica();
      await lab.sleep(lab.beatMs / 2);
      const b = await lab.replica();
      const turn = await lab.take(a, 'k');
      const next = lab.follow(lab.take(b, 'k'));
      await lab.sleep(lab.leaseMs * 1.5);

      await lab.nextBeat(a);
      a.cut();
      await lab.nextBeat(b);
      // With its own heartbeat in between, the witness sees a gap just within what it may bear.
      await lab.mesh.server.stepClock?.(lab.gapMs - lab.beatMs - lab.beatMs / 10);
      await lab.watch(lab.deathBoundMs, () => next.state !== 'waiting');

      claimEqual([next.state, lossOf(turn)], ['resolved', 'expired'], 'the next turn, and why the old one was lost');
    },
    { needs: ['stepClock'] },
  ),
];
