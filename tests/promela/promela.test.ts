// The protocol as a model that is searched whole, the bugs planted into it, and the model held to the reference store.
import { describe, expect, test } from 'vitest';
import { MODEL_BUGS } from './bugs.js';
import { Replay } from './Replay.js';
import { check, type Defines, simulate, whyNot } from './spin.js';
import { lastHappening, parseTrace } from './trace.js';

const reason = whyNot();
const isLong = process.env.BOTMESH_LONG === '1';
if (reason !== undefined) console.warn(`The model is not checked: ${reason}.`);

/** What is searched to its end in each run of CI. */
const SEARCHED: Record<string, Defines> = {
  'four replicas, one crashes': { N: 4, CRASHES: 1 },
  'four replicas, the server’s clock leaps': { N: 4, LEAPS: 1 },
  'three replicas, the server loses all data': { N: 3, WIPES: 1 },
  'three replicas, the server restarts': { N: 3, RESTARTS: 1 },
  'three replicas, a request or an answer is held up': { N: 3, SLOW: 1 },
  'three replicas, one is a later start of another, a pause': { N: 3, TWIN: 1, PAUSES: 1 },
};

/** Some minutes, and some gigabytes of memory: with BOTMESH_LONG=1. */
const SEARCHED_LONG: Record<string, Defines> = {
  'four replicas, a pause of any length': { N: 4, PAUSES: 1 },
  'three replicas, a pause, a request or an answer held up': { N: 3, PAUSES: 1, SLOW: 1 },
  'three replicas, a pause, the server loses all data': { N: 3, PAUSES: 1, WIPES: 1 },
  'three replicas, a pause, the server restarts': { N: 3, PAUSES: 1, RESTARTS: 1 },
  'three replicas, a pause, a crash, a stop in good order': { N: 3, PAUSES: 1, CRASHES: 1, STOPS: 1 },
};

const ENDS: Record<string, Defines> = {
  'three replicas, one crashes': { N: 3, CRASHES: 1 },
  'three replicas, two crash': { N: 3, CRASHES: 2 },
  'three replicas, a pause': { N: 3, PAUSES: 1 },
};

function told({ seconds, states }: { states: number; seconds: number }): string {
  return `${states} states, ${seconds} s`;
}

describe.skipIf(reason !== undefined)(`the model${reason === undefined ? '' : `, not checked: ${reason}`}`, () => {
  for (const [bounds, defines] of Object.entries({ ...SEARCHED, ...(isLong ? SEARCHED_LONG : {}) })) {
    test(`no order of events breaks a rule: ${bounds}`, { timeout: 600_000 }, async () => {
      const verdict = await check(defines);

      console.log(`${bounds}: ${told(verdict)}`);
      expect(verdict.broken, verdict.trail).toBeUndefined();
    });
  }

  for (const [bounds, defines] of Object.entries(ENDS)) {
    test(`whatever happens, every place comes to its end: ${bounds}`, { timeout: 600_000 }, async () => {
      const verdict = await check({ ...defines, ALL_END: 1 });

      console.log(`${bounds}: ${told(verdict)}`);
      expect(verdict.broken, verdict.trail).toBeUndefined();
    });
  }

  for (const { breaks, bug, faults, name } of MODEL_BUGS) {
    test(`a planted bug is found, and its trail does no harm to the real store: ${name}`, async ({ task }) => {
      const verdict = await check({ N: 3, BUG: bug, ...faults });
      const replay = await replayed(verdict.trail ?? '', faults);

      console.log(`${name}: ${told(verdict)}: ${verdict.broken}`);
      Object.assign(task.meta, { planted: { by: 'spin', ms: verdict.seconds * 1000 } });
      expect(verdict.broken).toMatch(breaks);
      expect(replay.steps).toBeGreaterThan(3);
      expect(replay.wrong).toBeUndefined();
    }, 60_000);
  }

  const runs = Number(process.env.BOTMESH_RUNS ?? 200);
  const first = Number(process.env.BOTMESH_SEED ?? 1);
  test(`${runs} random runs of the model, from seed ${first}: the reference store has the same after every step`, async () => {
    let steps = 0;
    for (let seed = first; seed < first + runs; seed++) {
      const defines = {
        N: 3,
        MESSAGES: 1 + (seed % 2),
        PAUSES: 2,
        CRASHES: 1,
        STOPS: 1,
        SLOW: 3,
        LEAPS: 1,
        ...KINDS[seed % KINDS.length],
      };
      steps += await holdToModel(seed, defines);
    }
    console.log(`${steps} steps`);
    expect(steps).toBeGreaterThan(runs * 10);
  }, 300_000);
});

const KINDS: readonly Defines[] = [{ RESTARTS: 1 }, { WIPES: 1 }, { TWIN: 1 }, { N: 4 }];
const SIMULATED_STEPS = 15_000;

function replayOf(defines: Defines): Replay {
  const { MESSAGES = 1, N = 3, TWIN = 0 } = defines;
  return new Replay({ replicas: N, messages: MESSAGES, hasTwin: TWIN === 1 });
}

/** Makes a random run of the model and, step by step, the same on the reference store. How many steps it had. */
async function holdToModel(seed: number, defines: Defines): Promise<number> {
  const { start, steps } = parseTrace(await simulate(seed, defines, SIMULATED_STEPS));
  const replay = replayOf(defines);
  await replay.start();
  expect(replay.holding()).toEqual(start);
  for (const [at, { after, happening }] of steps.entries()) {
    await replay.make(happening);
    const before = steps.slice(0, at + 1).map((step) => Object.values(step.happening).join(' '));
    expect(replay.holding(), `seed ${seed} ${JSON.stringify(defines)}\n${before.join('\n')}`).toEqual(after);
    expect(replay.wrong, `seed ${seed}`).toBeUndefined();
  }
  return steps.length;
}

/** How often the end of a run that never ends is made again. */
const ROUNDS = 12;

/** Makes the steps by which a bug did harm on the reference store, which has no such bug. */
async function replayed(printed: string, faults: Defines): Promise<{ wrong: string | undefined; steps: number }> {
  const { cycleAt, steps } = parseTrace(printed);
  const replay = replayOf(faults);
  await replay.start();
  for (const { happening } of steps) await replay.make(happening);
  const last = lastHappening(printed);
  if (last !== undefined) await replay.make(last);
  if (cycleAt === undefined) return { wrong: replay.wrong, steps: steps.length };
  for (let round = 0; round < ROUNDS; round++) {
    for (const { happening } of steps.slice(cycleAt)) await replay.make(happening);
  }
  const unserved = replay.isHeadServed() ? undefined : 'the head of the queue waits in vain';
  return { wrong: replay.wrong ?? unserved, steps: steps.length };
}
