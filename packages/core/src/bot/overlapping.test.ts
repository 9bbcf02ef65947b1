// Any mixture of overlap modes under faults that kill no replica: each message that was taken in ends exactly once, and
// exactly one event says how.
import { expect, test } from 'vitest';
import type { Overlap } from '../pipeline/overlap.js';
import { type LabBot, onBots } from '../testing/bot-conformance/BotLab.js';
import { memorySubject } from '../testing/memory-subject.js';
import { seededRandom } from '../testing/random.js';
import type { Bot } from './Bot.js';

const RUNS = Number(process.env.BOTMESH_SEEDS ?? 200);
const FIRST = Number(process.env.BOTMESH_SEED ?? 1);
const CHATS = ['ana', 'ben'];
const KINDS = ['a', 'b', 'c'];
const STEPS = 80;

interface Count {
  readonly accepted: Set<string>;
  readonly told: Map<string, string[]>;
  readonly parked: Set<string>;
}

/** A mode for each kind of message, as chance decides. */
function anyOverlap(random: () => number): { default: Overlap; kinds: Record<string, Overlap> } {
  const any = (): Overlap => {
    const modes: Overlap[] = [
      'serial',
      { mode: 'collect', quietMs: Math.floor(random() * 200), maxWaitMs: Math.floor(random() * 800) },
      'interrupt',
      'latest',
      'reject',
    ];
    return modes[Math.floor(random() * modes.length)]!;
  };
  return { default: any(), kinds: Object.fromEntries(KINDS.map((kind) => [kind, any()])) };
}

/** What the network does for a while: never for so long that a replica counts as dead. */
function disturb(bot: LabBot, random: () => number, leaseMs: number): void {
  const { replica } = bot;
  const kind = Math.floor(random() * 6);
  if (kind === 0) replica.loseAnswers(0.3);
  else if (kind === 1) replica.dropPushes(0.7);
  else if (kind === 2) replica.delay({ minMs: 0, maxMs: leaseMs / 20 });
  else if (kind === 3) replica.repeatRequests(0.3, leaseMs / 40);
  else {
    replica.cut(kind === 4 ? 'answers' : 'all');
    setHealing(bot, leaseMs * 0.2 * random());
  }
}

function setHealing(bot: LabBot, afterMs: number): void {
  void bot.sleep(afterMs).then(() => bot.replica.heal());
}

async function live(seed: number): Promise<Count> {
  const random = seededRandom(seed);
  const chance = seededRandom(seed + 1_000_000);
  const below = (most: number): number => Math.floor(random() * most);
  const accepted = new Set<string>();
  const told = new Map<string, string[]>();
  const parked = new Set<string>();
  await onBots(memorySubject(), async (lab) => {
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        const fails = chance() < 0.1;
        await Promise.race([
          self.sleep(chance() * 300),
          new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve())),
        ]);
        if (fails || ctx.messages.some(({ text }) => text === 'bad')) throw new Error('by chance');
        await ctx.reply(ctx.messages.map(({ id }) => id).join(' '));
      });
    };
    const options = { overlap: anyOverlap(random), graceMs: 100, retryDelayMs: 10 };
    const bots = [await lab.bot(set, options), await lab.bot(set, options), await lab.bot(set, options)];
    for (let step = 0; step < STEPS; step++) {
      const bot = bots[below(3)]!;
      const dice = random();
      const chat = CHATS[below(CHATS.length)]!;
      if (dice < 0.8) {
        const id = `${chat}-${step}`;
        const message = { chat, id, text: below(20) === 0 ? 'bad' : '', kind: KINDS[below(KINDS.length)]! };
        // As a platform does: again until it is taken in. What was refused may have been taken in all the same.
        const deliver = async (): Promise<void> => {
          for (;;) {
            const answer = await bot.provider.receive(message).catch(() => undefined);
            if (answer !== undefined) break;
            await bot.sleep(200);
          }
          accepted.add(id);
        };
        void deliver();
      } else if (dice < 0.9) {
        bot.bot.cancel(chat, 'by chance').catch(() => {});
      } else {
        disturb(bot, random, lab.leaseMs);
      }
      await lab.sleep(below(100));
    }
    for (const { replica } of bots) {
      replica.heal();
      replica.loseAnswers(0);
      replica.dropPushes(0);
      replica.repeatRequests(0);
      replica.delay({ minMs: 0, maxMs: 0 });
    }
    for (let waits = 0; waits < 100; waits++) {
      await lab.sleep(lab.leaseMs / 2);
      const views = await lab.mesh.inspect();
      if (views.every(({ queues }) => queues.length === 0)) break;
    }
    await lab.sleep(lab.leaseMs / 3);
    for (const { id = '', how, isUnsure } of lab.ends) {
      told.set(id, [...(told.get(id) ?? []), isUnsure === true ? `${how}, unsure` : how]);
    }
    for (const { id = '' } of await bots[0]!.bot.parked()) parked.add(id);
  });
  return { accepted, told, parked };
}

test(`in ${RUNS} random lives without a death each message ends exactly once, of the ends there are, and one event says so`, async () => {
  const total: Record<string, number> = {};
  for (let seed = FIRST; seed < FIRST + RUNS; seed++) {
    const { accepted, told, parked } = await live(seed);

    const wrong = [...accepted].filter((id) => told.get(id)?.length !== 1).map((id) => [id, told.get(id)]);
    expect({ seed, wrong }).toEqual({ seed, wrong: [] });
    expect({ seed, unknown: [...told.keys()].filter((id) => !accepted.has(id)) }).toEqual({ seed, unknown: [] });
    const toldParked = [...told].filter(([, [how]]) => how === 'parked').map(([id]) => id);
    expect({ seed, parked: toldParked.toSorted() }).toEqual({ seed, parked: [...parked].toSorted() });
    for (const [how] of told.values()) total[how!] = (total[how!] ?? 0) + 1;
  }
  console.log(`${RUNS} lives without a death, from seed ${FIRST}: ${JSON.stringify(total)}`);
  expect(Object.keys(total).toSorted()).toEqual(['cancelled', 'handled', 'merged', 'parked', 'rejected']);
}, 120_000);
