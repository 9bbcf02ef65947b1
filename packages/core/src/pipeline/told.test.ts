import { expect, test } from 'vitest';
import type { Bot } from '../bot/Bot.js';
import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import type { Mailroom, MailTurn } from '../coordination/types.js';
import { type LabBot, onBots } from '../testing/bot-conformance/BotLab.js';
import { MemoryMesh } from '../testing/MemoryMesh.js';
import { memorySubject } from '../testing/memory-subject.js';
import { VirtualClock } from '../testing/VirtualClock.js';

/** Freezes the replica right before it lets go of its next turn. */
function freezeAtRelease(self: LabBot): void {
  beforeRelease(self, () => self.freeze());
}

function beforeRelease(self: LabBot, act: () => void): void {
  const mail = self.replica.coordinator as Mailroom;
  const acquire = mail.acquireTurn.bind(mail);
  mail.acquireTurn = async (...args): Promise<MailTurn> => {
    const turn = await acquire(...args);
    const release = turn.release.bind(turn);
    turn.release = (options) => {
      turn.release = release;
      act();
      return release(options);
    };
    return turn;
  };
}

const say = (bot: Bot, self: LabBot): void => {
  bot.use(async (ctx) => {
    await self.sleep(50);
    await ctx.reply(ctx.messages.map(({ id }) => id).join());
  });
};

test('a replica that was counted as dead before its release does not tell that it handled the message', () =>
  onBots(memorySubject(), async (lab) => {
    const a = await lab.bot(say);
    const b = await lab.bot(say);
    freezeAtRelease(a);
    await a.provider.receive({ chat: 'k', id: '1', text: 'm' });
    await lab.until(3 * lab.leaseMs, () => lab.ends.length === 1, 'the end');
    expect(b.clock.isFrozen).toBe(false);

    a.thaw();
    await lab.sleep(2 * lab.leaseMs);

    expect(lab.endsOf('k')).toEqual(['1 handled']);
  }));

test('nor that it merged or cancelled any', () =>
  onBots(memorySubject(), async (lab) => {
    const overlap = { mode: 'collect', quietMs: 100 } as const;
    const a = await lab.bot(say, { overlap });
    await lab.bot(say, { overlap });
    freezeAtRelease(a);
    for (const id of ['1', '2']) await a.provider.receive({ chat: 'k', id, text: 'm' });
    await lab.until(4 * lab.leaseMs, () => lab.ends.length === 2, 'both ends');
    a.thaw();
    await lab.sleep(2 * lab.leaseMs);

    expect(lab.endsOf('k').sort()).toEqual(['1 merged by 2', '2 handled']);
  }));

test('an end that is confirmed only after the turn was let go is told then', () =>
  onBots(memorySubject(), async (lab) => {
    const a = await lab.bot(say);
    const mail = a.replica.coordinator as Mailroom;
    const acquire = mail.acquireTurn.bind(mail);
    const landings: ((isAll: boolean) => void)[] = [];
    mail.acquireTurn = async (...args): Promise<MailTurn> => {
      const turn = await acquire(...args);
      const release = turn.release.bind(turn);
      turn.release = ({ onLanded = () => {}, ...rest } = {}) => {
        landings.push(onLanded);
        return release(rest);
      };
      return turn;
    };
    await a.provider.receive({ chat: 'k', id: '1', text: 'm' });
    await lab.until(lab.leaseMs, () => landings.length === 1, 'the release');
    await lab.sleep(lab.leaseMs);
    expect(lab.ends).toEqual([]);

    landings[0]!(true);

    expect(lab.endsOf('k')).toEqual(['1 handled']);
  }));

test.each([
  { what: 'was done', way: 'answers', ends: ['1 handled unsure'], runs: 1 },
  { what: 'was not', way: 'requests', ends: ['1 handled', '1 handled unsure'], runs: 2 },
] as const)('an end of which no answer ever tells is told as unsure: it $what', ({ way, ends, runs }) =>
  onBots(memorySubject(), async (lab) => {
    let ran = 0;
    const set = (bot: Bot, self: LabBot): void => {
      bot.use(async () => {
        ran += 1;
        await self.sleep(50);
      });
    };
    const a = await lab.bot(set);
    await lab.bot(set);
    beforeRelease(a, () => a.replica.cut(way));
    await a.provider.receive({ chat: 'k', id: '1', text: 'm' });
    await lab.sleep(lab.leaseMs / 12);
    // Until it counts as dead: it is never told.
    a.replica.cut();
    await lab.sleep(3 * lab.leaseMs);

    a.replica.heal();
    await lab.sleep(2 * lab.leaseMs);

    const told = lab.ends.map(({ id, how, isUnsure }) => `${id} ${how}${isUnsure === true ? ' unsure' : ''}`);
    expect(told).toEqual(ends);
    expect(ran).toBe(runs);
  }),
);

test('an end whose answer was lost is told once, and surely, when the next answer comes', () =>
  onBots(memorySubject(), async (lab) => {
    const a = await lab.bot(say);
    beforeRelease(a, () => a.replica.cut('answers'));
    await a.provider.receive({ chat: 'k', id: '1', text: 'm' });
    await lab.sleep(lab.leaseMs / 4);
    expect(lab.ends).toEqual([]);

    a.replica.heal();
    await lab.sleep(2 * lab.leaseMs);

    expect(lab.ends.map(({ id, how, isUnsure }) => [id, how, isUnsure])).toEqual([['1', 'handled', undefined]]);
  }));

test('a message that another replica took over before it could be rejected is not told as rejected', () =>
  onBots(memorySubject(), async (lab) => {
    const rejected: string[] = [];
    const options = {
      overlap: 'reject',
      onRejected: ({ message }: { message: { id?: string | undefined } }) => rejected.push(String(message.id)),
    } as const;
    const work = (bot: Bot, self: LabBot): void => {
      bot.use(async (ctx) => {
        await self.sleep(lab.leaseMs / 2);
        await ctx.reply('x');
      });
    };
    const b = await lab.bot(work, options);
    const a = await lab.bot(work, options);
    const mail = a.replica.coordinator as Mailroom;
    const finish = mail.finish.bind(mail);
    mail.finish = (...args) => {
      a.freeze();
      return finish(...args);
    };
    await b.provider.receive({ chat: 'k', id: '1', text: 'm' });
    const taken = a.provider.receive({ chat: 'k', id: '2', text: 'm' });
    await lab.until(4 * lab.leaseMs, () => lab.ends.length === 2, 'both ends');

    a.thaw();
    await lab.sleep(2 * lab.leaseMs);

    expect(await taken).toBe('accepted');
    expect(lab.endsOf('k')).toEqual(['1 handled', '2 handled']);
    expect(rejected).toEqual([]);
  }));

test('a message that was parked by a death the host noticed is told of by a replica that lives', async () => {
  const clock = new VirtualClock();
  const mesh = new MemoryMesh({ clock });
  const [a, b] = ['a', 'b'].map((replicaId) => new MemoryCoordinator({ mesh, replicaId, maxAttempts: 1 }));
  const told: unknown[] = [];
  b!.on('parked', (event) => told.push(event));

  await clock.run(async () => {
    await Promise.all([a!.start(), b!.start()]);
    await a!.acquireTurn((await a!.accept('k', { id: '1', body: 'x' }))!);
    mesh.crash(a!);
    await clock.sleep(12_000);
    await b!.stop();
  });

  expect(told).toEqual([{ key: 'k', id: '1', attempts: 1 }]);
});
