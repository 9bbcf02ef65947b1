import type { Bot } from '../../bot/Bot.js';
import { CoordinationUnavailableError } from '../../errors.js';
import type { StateStore, StoredState } from '../../state/state-store.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab } from './BotLab.js';

/** A state store that can be away, or full: then it saves nothing, but can be read. */
class Frail implements StateStore {
  readonly #store: StateStore;
  is: 'well' | 'full' | 'away' = 'well';
  refused = 0;

  constructor(store: StateStore) {
    this.#store = store;
  }

  load(key: string): Promise<StoredState | null> {
    return this.is === 'away' ? this.#refuse() : this.#store.load(key);
  }

  save(key: string, value: unknown, fence: number): Promise<void> {
    return this.is === 'well' ? this.#store.save(key, value, fence) : this.#refuse();
  }

  #refuse(): Promise<never> {
    this.refused += 1;
    return Promise.reject(new CoordinationUnavailableError('unavailable', `The state store is ${this.is}.`));
  }
}

interface Scene {
  readonly store: Frail;
  /** Runs of handlers: the message, the attempt, and what it found. */
  readonly runs: string[];
  readonly set: (bot: Bot) => void;
}

/** Handlers that reply and count, and fill the store, or cut it off, when told to. */
function scene(lab: BotLab): Scene {
  const store = new Frail(lab.state);
  const runs: string[] = [];
  const set = (bot: Bot): void => {
    bot.use(async (ctx) => {
      const { id, text } = ctx.message;
      const count = Number(ctx.state.count ?? 0) + 1;
      runs.push(`${id} try ${ctx.attempt} finds ${count - 1}`);
      ctx.state.count = count;
      await ctx.reply(text);
      if (text === 'full') store.is = 'full';
    });
  };
  return { store, runs, set };
}

const toldOf = (lab: BotLab): string[] => lab.log.filter((line) => line.includes('state can')).map(before);
/** Without what differs from run to run. */
const before = (line: string): string => line.replace(/ \(.*|, after.*/, '');

/** Facts of bots whose state store is away while their coordinator is not. */
export const stateOutages: Record<string, (lab: BotLab) => Promise<void>> = {
  'a state store that takes no save for long costs no attempt: what was handled is saved, and not handled again':
    async (lab) => {
      const { store, runs, set } = scene(lab);
      const { provider } = await lab.bot(set, { state: store });

      await provider.receive({ chat: 'k', id: '1', text: 'full' });
      // Its handler fills the store. Another chat may be in another shard, where nothing waits for that.
      await lab.until(lab.leaseMs, () => runs.length === 1, 'the first run');
      await provider.receive({ chat: 'k', id: '2', text: 'two' });
      await provider.receive({ chat: 'j', id: '3', text: 'three' });
      await lab.sleep(1.5 * lab.leaseMs);
      claimEqual([lab.ends.length, runs], [0, ['1 try 1 finds 0', '3 try 1 finds 0']], 'ends and runs meanwhile');
      claim(store.refused > 4, `only ${store.refused} calls were refused`);
      store.is = 'well';
      await lab.until(5_000 + lab.leaseMs, () => lab.ends.length === 3, 'all ends');

      claimEqual(runs, ['1 try 1 finds 0', '3 try 1 finds 0', '2 try 1 finds 1'], 'runs');
      claimEqual(
        lab.ends.map(({ how }) => how),
        ['handled', 'handled', 'handled'],
        'ends',
      );
      claimEqual([lab.textsTo('k'), lab.errors], [['full', 'two'], []], 'replies, and what onError heard');
      claimEqual(
        toldOf(lab),
        ['botmesh: state cannot be saved', 'botmesh: state can be saved again'],
        'what operators are told',
      );
    },

  'a state store that cannot be read holds messages back for as long, uncounted and in order': async (lab) => {
    const { store, runs, set } = scene(lab);
    const { provider } = await lab.bot(set, { state: store });
    store.is = 'away';

    for (const id of ['1', '2']) await provider.receive({ chat: 'k', id, text: id });
    await lab.sleep(1.5 * lab.leaseMs);
    claimEqual(runs, [], 'runs meanwhile');
    store.is = 'well';
    await lab.until(5_000 + lab.leaseMs, () => lab.ends.length === 2, 'all ends');

    claimEqual(runs, ['1 try 1 finds 0', '2 try 1 finds 1'], 'runs');
    claimEqual(lab.errors, [], 'what onError heard');
    claimEqual(
      toldOf(lab),
      ['botmesh: state cannot be read', 'botmesh: state can be read again'],
      'what operators are told',
    );
  },

  'what is kept under held keys, and the record of replies, wait for the state store too': async (lab) => {
    const store = new Frail(lab.state);
    const runs: string[] = [];
    const set = (bot: Bot): void => {
      bot.use(async (ctx) => {
        runs.push(`${ctx.message.id} try ${ctx.attempt}`);
        const user = await ctx.hold('user');
        user.state.count = Number(user.state.count ?? 0) + 1;
        await ctx.reply(String(user.state.count));
      });
    };
    const { provider } = await lab.bot(set, { state: store, onUnknownSend: 'resend' });
    const message = { chat: 'k', from: 'ana', text: 'x' };
    await provider.receive({ ...message, id: '1' });
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'the first end');

    for (const is of ['full', 'away'] as const) {
      store.is = is;
      await provider.receive({ ...message, id: is });
      await lab.sleep(1.5 * lab.leaseMs);
      store.is = 'well';
      await lab.until(5_000 + lab.leaseMs, () => lab.endsOf('k').includes(`${is} handled`), `the end of ${is}`);
    }

    claimEqual(runs, ['1 try 1', 'full try 1', 'away try 1'], 'runs');
    claimEqual([lab.textsTo('k'), lab.errors], [['1', '2', '3'], []], 'replies, and what onError heard');
  },

  'a turn that waits for the state store ends by a cancel': async (lab) => {
    const { store, set } = scene(lab);
    const { provider } = await lab.bot(set, { state: store });
    const { bot } = await lab.bot(set, { state: store });
    await provider.receive({ chat: 'k', id: '1', text: 'full' });
    await lab.until(lab.leaseMs, () => store.refused > 1, 'saves that are refused');

    claimEqual(await bot.cancel('k'), true, 'whether a turn was running');
    await lab.until(lab.leaseMs, () => lab.ends.length === 1, 'its end');

    claimEqual(lab.endsOf('k'), ['1 cancelled'], 'its end');
  },

  'a turn that waits for the state store for maxTurnMs is another replica’s to try, uncounted': async (lab) => {
    const { store, runs, set } = scene(lab);
    const maxTurnMs = 3_000;
    const a = await lab.bot(set, { state: store, maxTurnMs });
    await a.provider.receive({ chat: 'k', id: '1', text: 'full' });
    await lab.until(lab.leaseMs, () => store.refused > 1, 'saves that are refused');
    await lab.bot(set, { maxTurnMs });
    await lab.until(maxTurnMs + 2 * lab.leaseMs, () => lab.ends.length === 1, 'its end');

    claimEqual(runs, ['1 try 1 finds 0', '1 try 1 finds 0'], 'runs');
    claimEqual(lab.endsOf('k'), ['1 handled'], 'its end');
  },

  'a stop does not wait longer for the state store than for a handler, and others go on': async (lab) => {
    const { store, runs, set } = scene(lab);
    const a = await lab.bot(set, { state: store });
    await a.provider.receive({ chat: 'k', id: '1', text: 'full' });
    await lab.until(lab.leaseMs, () => store.refused > 1, 'saves that are refused');
    store.is = 'away';
    await a.provider.receive({ chat: 'j', id: '2', text: 'two' });
    await lab.until(lab.leaseMs, () => store.refused > 4, 'loads that are refused');
    await lab.bot(set);

    const stopping = a.bot.stop({ drainMs: lab.leaseMs / 2 });
    // Not begun, it is passed on before the drain is over.
    await lab.until(lab.leaseMs / 4, () => lab.endsOf('j').length === 1, 'the end of what had not begun');
    await stopping;
    await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'both ends');

    claimEqual(runs.slice(0, 2), ['1 try 1 finds 0', '2 try 1 finds 0'], 'first runs');
    claimEqual(
      lab.ends.map(({ how }) => how),
      ['handled', 'handled'],
      'ends',
    );
  },
};
