import type { Bot } from '../../bot/Bot.js';
import type { Mailroom } from '../../coordination/types.js';
import type { ServerFault } from '../conformance.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

export interface ServerFact {
  readonly needs: readonly ServerFault[];
  readonly body: (lab: BotLab) => Promise<void>;
}

const linesOf = (lab: BotLab): string[] => lab.log.filter((line) => line.includes('the store lost data'));
const lostOf = (lab: BotLab): string[] =>
  lab.ends
    .filter(({ how }) => how === 'lost')
    .map(({ id, isUnsure }) => `${id}${isUnsure ? '' : ' for sure'}`)
    .toSorted();

/** Handlers that work for as long as `isBusy`, and a while longer where they are deaf to their signal. */
function work(lab: BotLab) {
  const begun: string[] = [];
  const state = { isBusy: true };
  const set = (bot: Bot, self: LabBot): void => {
    bot.use(async (ctx) => {
      begun.push(`${ctx.message.id}`);
      const isDeaf = ctx.message.text === 'deaf';
      while (state.isBusy && (isDeaf || !ctx.signal.aborted)) await self.sleep(lab.leaseMs / 60);
      if (isDeaf) await self.sleep(lab.leaseMs / 4);
      await ctx.reply(ctx.message.text);
    });
  };
  return { begun, state, set };
}

/** Facts of bots whose store loses data under them. */
export const forgetting: Record<string, ServerFact> = {
  'messages that a store lost with all its data end as lost, and one line a replica names them': {
    needs: ['wipe'],
    body: async (lab) => {
      const { begun, set, state } = work(lab);
      const a = await lab.bot(set);
      const b = await lab.bot(set);
      await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
      await b.provider.receive({ chat: 'k', id: '2', text: 'two' });
      await b.provider.receive({ chat: 'j', id: '3', text: 'deaf' });
      await b.provider.receive({ chat: 'j', text: 'four' });
      await lab.until(lab.leaseMs / 4, () => begun.length === 2, 'runs');

      await lab.mesh.server.wipe?.();
      await lab.until(lab.leaseMs, () => lab.ends.length === 3, 'three ends');
      state.isBusy = false;
      await lab.until(lab.leaseMs, () => lab.ends.length === 4, 'the end of what did not listen');
      claimEqual(lostOf(lab), ['1', '2', '3', 'undefined'], 'ends');
      await lab.sleep(2_000);
      const named = linesOf(lab).flatMap((line) => /of chats ([^.]*)\./.exec(line)?.[1]?.split(', ') ?? []);
      claimEqual(named.toSorted(), ['j', 'j (3)', 'k (1)', 'k (2)'], 'chats and ids in the lines');
      claim(linesOf(lab).length <= 3, `${linesOf(lab).length} lines`);

      // The platform may deliver them again, and they count.
      claimEqual(await a.provider.receive({ chat: 'k', id: '1', text: 'one' }), 'accepted', 'a redelivery');
      await lab.until(3 * lab.leaseMs, () => lab.endsOf('k').includes('1 handled'), 'its end');
    },
  },

  'a message that runs to its end while a store loses all its data ends as lost': {
    needs: ['wipe'],
    body: async (lab) => {
      const { begun, set, state } = work(lab);
      const a = await lab.bot(set);
      await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
      await lab.until(lab.leaseMs / 4, () => begun.length === 1, 'the run');

      await lab.mesh.server.wipe?.();
      state.isBusy = false;
      await lab.until(2 * lab.leaseMs, () => lab.ends.length === 1, 'its end');
      claimEqual(lostOf(lab), ['1'], 'ends');
    },
  },

  'a message that is turned away while a store loses all its data ends as lost': {
    needs: ['wipe'],
    body: async (lab) => {
      const { begun, set, state } = work(lab);
      const a = await lab.bot(set, { overlap: 'reject' });
      await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
      await lab.until(lab.leaseMs / 4, () => begun.length === 1, 'the run');
      const mail = a.replica.coordinator as unknown as Mailroom;
      const finish = mail.finish.bind(mail);
      mail.finish = async (...args) => {
        await lab.mesh.server.wipe?.();
        return finish(...args);
      };

      await a.provider.receive({ chat: 'k', id: '2', text: 'two' });
      await lab.until(2 * lab.leaseMs, () => lab.ends.length === 2, 'both ends');
      state.isBusy = false;
      claimEqual(lostOf(lab), ['1', '2'], 'ends');
    },
  },

  'messages that came after the copy to which a store was set back end as lost, those before it are handled': {
    needs: ['rollback'],
    body: async (lab) => {
      const { begun, set, state } = work(lab);
      const a = await lab.bot(set);
      await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
      await lab.until(lab.leaseMs / 4, () => begun.length === 1, 'the first run');
      await lab.sleep(lab.leaseMs / 4);
      const setBack = await lab.mesh.server.snapshot?.();
      await a.provider.receive({ chat: 'k', id: '2', text: 'two' });
      await a.provider.receive({ chat: 'j', id: '3', text: 'three' });

      await setBack?.();
      await lab.until(lab.leaseMs, () => lab.ends.length === 2, 'what was lost');
      state.isBusy = false;
      await lab.until(3 * lab.leaseMs, () => lab.ends.length === 3, 'what was kept');

      claimEqual(lostOf(lab), ['2', '3'], 'what was lost');
      claimEqual(lab.endsOf('k'), ['2 lost', '1 handled'], 'ends');
    },
  },

  'while nothing may be granted after a store lost data, one line says for how long, and so does readyz': {
    needs: ['wipe'],
    body: async (lab) => {
      const { set, state } = work(lab);
      state.isBusy = false;
      const { bot, provider } = await lab.bot(set);
      const readiness = async () => {
        const answer = await bot.webhook(new Request('http://bot/readyz'));
        const { status, waits } = (await answer.json()) as { status: string; waits?: { for: string; leftMs: number } };
        return { code: answer.status, status, waits };
      };
      const linesNow = (): string[] => lab.log.filter((line) => line.includes('no turn is granted for about'));
      claimEqual([(await readiness()).waits, linesNow()], [undefined, []], 'what is waited for before');

      await lab.mesh.server.wipe?.();
      await lab.until(lab.leaseMs, () => linesNow().length > 0, 'the line');
      await provider.receive({ chat: 'k', id: '1', text: 'one' });
      const { code, status, waits } = await readiness();
      claimEqual([code, status, waits?.for, lab.ends.length], [200, 'ready', 'quarantine', 0], 'readiness, and ends');
      claim(waits!.leftMs > 0 && waits!.leftMs <= lab.leaseMs, `it says that ${waits!.leftMs} ms are left`);
      await lab.until(3 * lab.leaseMs, () => lab.ends.length === 1, 'its end');

      await lab.sleep(lab.leaseMs);
      claimEqual([(await readiness()).waits, linesNow().length], [undefined, 1], 'what is waited for after, and lines');
    },
  },

  'a store that restarts with its data loses nothing, nor does a replica that was taken for dead: nothing is told': {
    needs: ['restart'],
    body: async (lab) => {
      const { begun, set, state } = work(lab);
      const a = await lab.bot(set);
      const b = await lab.bot(set);
      await a.provider.receive({ chat: 'k', id: '1', text: 'one' });
      await a.provider.receive({ chat: 'k', id: '2', text: 'two' });
      await lab.until(lab.leaseMs / 4, () => begun.length === 1, 'the first run');

      await lab.mesh.server.restart?.();
      await lab.sleep(2 * lab.leaseMs);
      a.freeze();
      await lab.sleep(2 * lab.leaseMs);
      a.thaw();
      await lab.sleep(lab.leaseMs);
      state.isBusy = false;
      await lab.until(3 * lab.leaseMs, () => lab.ends.length === 2, 'both ends');
      await b.provider.receive({ chat: 'k', id: '3', text: 'three' });
      await lab.until(lab.leaseMs, () => lab.ends.length === 3, 'the end of a later one');

      claimEqual(lab.endsOf('k'), ['1 handled', '2 handled', '3 handled'], 'ends');
      claimEqual(linesOf(lab), [], 'lines');
    },
  },
};
