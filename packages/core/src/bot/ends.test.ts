import { expect, test } from 'vitest';
import type { Ended } from '../pipeline/fate.js';
import { type BotLab, type LabBot, onBots } from '../testing/bot-conformance/BotLab.js';
import { memorySubject } from '../testing/memory-subject.js';
import { seededRandom } from '../testing/random.js';
import type { Bot } from './Bot.js';
import type { BotOptions } from './options.js';

const SEEDS = Number(process.env.BOTMESH_SEEDS ?? 30);
const STEPS = 120;
const CHATS = ['ana', 'ben', 'cleo'];
const KINDS = ['serial', 'collect', 'interrupt', 'latest', 'reject'] as const;

interface Outcome {
  readonly accepted: ReadonlySet<string>;
  readonly ends: readonly Ended[];
  /** The messages that a run replied to, in the order of the replies. */
  readonly replied: readonly string[];
}

/** One random life of three replicas: messages of all kinds, failures, cancels, crashes and stops. */
async function live(seed: number): Promise<Outcome> {
  const random = seededRandom(seed);
  const below = (most: number): number => Math.floor(random() * most);
  const accepted = new Set<string>();
  const replied: string[] = [];
  let ends: readonly Ended[] = [];
  await onBots(memorySubject(), async (lab) => {
    const chance = seededRandom(seed + 1_000_000);
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        const waitMs = Math.floor(chance() * 400);
        const fails = chance() < 0.15 || ctx.messages.some(({ text }) => text.endsWith('bad'));
        await Promise.race([
          self.sleep(waitMs),
          new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve())),
        ]);
        if (fails) throw new Error('by chance');
        ctx.state.count = Number(ctx.state.count ?? 0) + ctx.messages.length;
        await ctx.reply(ctx.messages.map(({ id }) => id).join(' '));
      });
    };
    const options: Partial<BotOptions> = {
      overlap: {
        default: 'serial',
        kinds: {
          collect: { mode: 'collect', quietMs: 150, maxWaitMs: 600 },
          interrupt: 'interrupt',
          latest: 'latest',
          reject: 'reject',
        },
      },
      graceMs: 100,
      retryDelayMs: 20,
    };
    const launch = (): Promise<LabBot> => lab.bot(set, options);
    const bots = [await launch(), await launch(), await launch()];
    const any = (): LabBot => bots[below(bots.length)]!;

    for (let step = 0; step < STEPS; step++) {
      const dice = random();
      if (dice < 0.8) {
        const chat = CHATS[below(CHATS.length)]!;
        const id = `${chat}-${step}`;
        const text = below(25) === 0 ? 'bad' : '';
        const message = { chat, id, text, kind: KINDS[below(KINDS.length)]! };
        any()
          .provider.receive(message)
          .then(
            (answer) => void (answer === 'accepted' && accepted.add(id)),
            () => {},
          );
      } else if (dice < 0.9) {
        any()
          .bot.cancel(CHATS[below(CHATS.length)]!, 'by chance')
          .catch(() => {});
      } else if (dice < 0.95) {
        const [stopped] = bots.splice(below(bots.length), 1);
        void stopped!.bot.stop({ drainMs: below(300) });
        bots.push(await launch());
      } else {
        const [dead] = bots.splice(below(bots.length), 1);
        dead!.crash();
        bots.push(await launch());
      }
      await lab.sleep(below(120));
    }
    await settled(lab);
    ends = [...lab.ends];
    replied.push(...lab.sent.flatMap(({ text }) => text.split(' ')));
  });
  return { accepted, ends, replied };
}

/** Until no chat has anything left in the mesh. */
async function settled(lab: BotLab): Promise<void> {
  for (let waits = 0; waits < 100; waits++) {
    await lab.sleep(lab.leaseMs / 2);
    const views = await lab.mesh.inspect();
    if (views.every(({ queues }) => queues.every(({ key }) => !CHATS.includes(key.slice(2))))) break;
  }
  // What ended in this moment is told.
  await lab.sleep(lab.leaseMs / 6);
}

test(`in ${SEEDS} random lives every message that was taken in ends once, in one way, and tells so`, async () => {
  const total: Record<string, number> = {};
  for (let seed = 1; seed <= SEEDS; seed++) {
    const { accepted, ends, replied } = await live(seed);
    const hows = new Map<string, string[]>();
    for (const { id, how } of ends) hows.set(id!, [...(hows.get(id!) ?? []), how]);
    for (const { how } of ends) total[how] = (total[how] ?? 0) + 1;

    const silent = [...accepted].filter((id) => !hows.has(id));
    const twice = [...hows].filter(([, list]) => list.length > 1);
    expect({ seed, silent, twice }).toEqual({ seed, silent: [], twice: [] });
    // What ended as handled or merged was replied to.
    const handled = ends.filter(({ how }) => how === 'handled' || how === 'merged').map(({ id }) => id!);
    expect({ seed, mute: handled.filter((id) => !replied.includes(id)) }).toEqual({ seed, mute: [] });
  }
  console.log(`${SEEDS} lives: ${JSON.stringify(total)}`);
  expect(Object.keys(total).toSorted()).toEqual(['cancelled', 'handled', 'merged', 'parked', 'rejected'].toSorted());
}, 120_000);
