import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { Bot } from '../../bot/Bot.js';
import { MemoryCoordinator } from '../../coordination/MemoryCoordinator.js';
import { LeaseLostError } from '../../errors.js';
import type { Intake, Lead, Provider } from '../../providers/provider.js';
import { MemoryStateStore } from '../../state/MemoryStateStore.js';
import { type BotMesh, botMesh, gate } from '../../testing/bots.js';
import { systemClock } from '../../time/clock.js';
import { AccountGate } from './AccountGate.js';
import { isToGive, isToTake } from './share.js';

const BALANCE_MS = 20;

let lab: BotMesh;
let state: MemoryStateStore;
const unhandled = vi.fn();
const bots: Bot[] = [];

beforeEach(() => {
  lab = botMesh();
  state = new MemoryStateStore();
  process.on('unhandledRejection', unhandled);
});

afterEach(async () => {
  await Promise.all(bots.splice(0).map((bot) => bot.stop({ drainMs: 0 })));
  await lab.close();
  process.off('unhandledRejection', unhandled);
  expect(unhandled).not.toHaveBeenCalled();
});

/** What the platform hears and says of one replica. */
class Lines implements Provider {
  readonly name = 'lines';
  readonly accounts: readonly string[];
  readonly exclusive: boolean | 'receiving';
  readonly intakes = new Map<string, Intake>();
  readonly leads = new Map<string, Lead>();
  readonly calls: string[] = [];
  readonly sent: string[] = [];

  constructor(accounts: readonly string[], exclusive: boolean | 'receiving' = true) {
    this.accounts = accounts;
    this.exclusive = exclusive;
  }

  accountOf(chat: string): string {
    return chat.split('/')[0]!;
  }

  start(intake: Intake, lead?: Lead, account = ''): void {
    this.calls.push(`start ${account}`);
    this.intakes.set(account, intake);
    this.leads.set(account, lead!);
  }

  stop(account = ''): void {
    this.calls.push(`stop ${account}`);
  }

  close(account = ''): void {
    this.calls.push(`close ${account}`);
    this.intakes.delete(account);
  }

  async webhook(request: Request, intake: Intake): Promise<Response> {
    return Response.json(await intake((await request.json()) as { chat: string; text: string }));
  }

  send(chat: string, { text }: { text: string }): void {
    this.sent.push(`${chat} ${text}`);
  }
}

async function launch(provider: Lines, set: (bot: Bot) => unknown = echo) {
  const coordinator = new MemoryCoordinator({ mesh: lab.mesh, leaseMs: lab.leaseMs });
  const errors: unknown[] = [];
  const bot = new Bot({
    provider,
    coordinator,
    state,
    balanceMs: BALANCE_MS,
    retryDelayMs: 0,
    log: () => {},
    onError: (error) => errors.push(error),
  });
  set(bot);
  bots.push(bot);
  await bot.start();
  return { bot, coordinator, provider, errors };
}

const echo = (bot: Bot): Bot => bot.use((ctx) => ctx.reply(ctx.message.text));

const placesOf = async (bot: Bot): Promise<unknown> =>
  ((await (await bot.webhook(new Request('http://bot/readyz'))).json()) as { accounts: unknown }).accounts;

describe('the shares', () => {
  test('come out even, give or take one, from any beginning, by one gift at a time', () => {
    for (let replicas = 1; replicas <= 6; replicas++) {
      for (let total = 0; total <= 20; total++) {
        const loads = [total, ...Array<number>(replicas - 1).fill(0)];
        let gifts = 0;
        for (;;) {
          const giver = loads.findIndex((load, n) => isToGive(load, others(loads, n)));
          if (giver < 0) break;
          loads[giver]! -= 1;
          const taker = loads.findIndex((load, n) => n !== giver && isToTake(load, others(loads, n), total));
          expect(taker, `who takes of ${String(loads)}`).toBeGreaterThanOrEqual(0);
          loads[taker]! += 1;
          gifts += 1;
        }
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
        expect(gifts).toBe(total - loads[0]!);
      }
    }
  });
});

function others(loads: readonly number[], own: number): number[] {
  return loads.filter((_, n) => n !== own);
}

describe('accounts of an exclusive provider', () => {
  test('a turn that runs ends before its account moves, and what waits behind it is handled at the new place', async () => {
    const { open, opened } = gate();
    let begun = 0;
    const a = await launch(new Lines(['x', 'y']), (bot) =>
      bot.use(async (ctx) => {
        begun += 1;
        await opened;
        await ctx.reply(ctx.message.text);
      }),
    );
    await vi.waitFor(() => expect(a.provider.intakes.size).toBe(2));
    for (const account of ['x', 'y']) {
      for (const id of ['1', '2']) await a.provider.intakes.get(account)!({ chat: `${account}/k`, id, text: id });
    }
    await vi.waitFor(() => expect(begun).toBe(2));

    const b = await launch(new Lines(['x', 'y']));
    await vi.waitFor(() => expect(a.provider.calls.some((call) => call.startsWith('stop'))).toBe(true));
    const moving = a.provider.calls.find((call) => call.startsWith('stop'))!.slice('stop '.length);
    expect(a.provider.calls).not.toContain(`close ${moving}`);
    expect(b.provider.calls).toEqual([]);
    open();
    await vi.waitFor(() => expect(b.provider.sent).toEqual([`${moving}/k 2`]));

    await vi.waitFor(() => expect(a.provider.sent).toHaveLength(3));
    expect(a.provider.sent.filter((each) => each.startsWith(moving))).toEqual([`${moving}/k 1`]);
  });

  test('what a provider gives up is closed and told of, shown as a conflict, and left to another replica', async () => {
    const a = await launch(new Lines(['x']));
    await vi.waitFor(async () => expect(await placesOf(a.bot)).toEqual({ x: 'held' }));
    const b = await launch(new Lines(['x']));

    a.provider.leads.get('x')!.giveUp!(new Error('440'));
    await vi.waitFor(async () => expect(await placesOf(b.bot)).toEqual({ x: 'held' }));

    expect(a.errors).toEqual([new Error('440')]);
    expect(a.provider.calls).toEqual(['start x', 'stop x', 'close x']);
    expect(await placesOf(a.bot)).toEqual({ x: 'conflict' });
  });

  test('a reply after the account was lost is refused, and its message goes to the new holder as if untried', async () => {
    const { open, opened } = gate();
    const refused: unknown[] = [];
    const a = await launch(new Lines(['x']), (bot) =>
      bot.use(async (ctx) => {
        await opened;
        await ctx.reply('late').catch((error: unknown) => {
          refused.push(error);
          throw error;
        });
      }),
    );
    await vi.waitFor(() => expect(a.provider.intakes.size).toBe(1));
    await a.provider.intakes.get('x')!({ chat: 'x/k', id: '1', text: 'one' });
    const b = await launch(new Lines(['x']), (bot) => bot.use((ctx) => ctx.reply(`attempt ${ctx.attempt}`)));

    a.provider.leads.get('x')!.giveUp!(new Error('440'));
    await vi.waitFor(() => expect(b.provider.intakes.size).toBe(1));
    open();
    await vi.waitFor(() => expect(b.provider.sent).toEqual(['x/k attempt 1']));

    expect(refused).toMatchObject([{ code: 'lease-lost' }]);
    expect(a.provider.sent).toEqual([]);
  });

  test('a handler hears by its signal that its account was given up, while its turn is held', async () => {
    const heard: unknown[] = [];
    const wait = (bot: Bot): Bot =>
      bot.use(async (ctx) => {
        if (ctx.attempt > 1 || ctx.message.text === 'quick') return;
        await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
        heard.push([ctx.message.chat, (ctx.signal.reason as LeaseLostError).reason]);
        expect(() => ctx.turn.assertHeld()).not.toThrow();
        throw ctx.signal.reason;
      });
    const a = await launch(new Lines(['x', 'y']), wait);
    await vi.waitFor(() => expect(a.provider.intakes.size).toBe(2));
    for (const account of ['x', 'y']) await a.provider.intakes.get(account)!({ chat: `${account}/k`, text: account });

    a.provider.leads.get('x')!.giveUp!(new Error('440'));
    await vi.waitFor(() => expect(heard).toEqual([['x/k', 'stopped']]));

    expect(a.errors).toEqual([new Error('440')]);
  });

  test('what runs for an account hears that its leadership is lost, and that it is closed, each once, and nothing of others', async () => {
    const gate = new AccountGate({
      clock: systemClock,
      names: ['x', 'y'],
      accounts: { placeOf: () => 'held', isElsewhere: () => false },
      accountOf: (chat) => chat,
      canPass: true,
      stopping: new AbortController().signal,
    });
    const { signal } = new AbortController();
    const heard: string[] = [];
    const guest = (name: string) => ({ accountLost: () => heard.push(name) });
    const lost = new AbortController();
    gate.opened('x', { signal: lost.signal, assertHeld: () => lost.signal.throwIfAborted() });
    gate.opened('y', { signal, assertHeld: () => {} });
    const gone = guest('gone');
    for (const [chat, each] of [
      ['x', gone],
      ['x', guest('x')],
      ['y', guest('y')],
    ] as const) {
      expect(await gate.enter(chat, signal, each)).toBe(true);
    }
    gate.leave('x', gone);

    lost.abort(new LeaseLostError('expired'));
    expect([heard, gate.isHere('x'), gate.isConnected('x')]).toEqual([['x'], false, false]);
    gate.closed('y');

    expect(heard).toEqual(['x', 'y']);
  });

  test('where all may send, every replica handles, and a move waits for no turn', async () => {
    const { open, opened } = gate();
    const a = await launch(new Lines(['x', 'y'], 'receiving'), (bot) =>
      bot.use(async (ctx) => {
        await opened;
        await ctx.reply(ctx.message.text);
      }),
    );
    await vi.waitFor(() => expect(a.provider.intakes.size).toBe(2));
    for (const account of ['x', 'y']) await a.provider.intakes.get(account)!({ chat: `${account}/k`, text: account });

    const b = await launch(new Lines(['x', 'y'], 'receiving'));
    await vi.waitFor(() => expect(b.provider.intakes.size).toBe(1));
    open();

    await vi.waitFor(() => expect(a.provider.sent.toSorted()).toEqual(['x/k x', 'y/k y']));
  });

  test('a message of another account than it came to is refused by name', async () => {
    const a = await launch(new Lines(['x']));
    await vi.waitFor(() => expect(a.provider.intakes.size).toBe(1));

    const taken = a.provider.intakes.get('x')!({ chat: 'y/k', text: 'hi' });

    await expect(taken).rejects.toThrow("came to account 'x' is of a chat of account 'y'");
  });

  test('alone, without a coordinator, a bot has all accounts', async () => {
    const provider = new Lines(['x', 'y']);
    const bot = new Bot({ provider, balanceMs: BALANCE_MS, log: () => {} });
    echo(bot);
    bots.push(bot);
    await bot.start();
    await vi.waitFor(() => expect(provider.intakes.size).toBe(2));

    for (const account of ['x', 'y']) await provider.intakes.get(account)!({ chat: `${account}/k`, text: account });

    await vi.waitFor(() => expect(provider.sent.toSorted()).toEqual(['x/k x', 'y/k y']));
  });
});

test('accounts that cannot work are refused by name', () => {
  const made = (changes: object) => () => new Bot({ provider: Object.assign(new Lines(['x']), changes) });
  const refusals: [object, string][] = [
    [{ accounts: [] }, 'at least one'],
    [{ accounts: 'x' }, 'expected a list'],
    [{ accounts: ['x', 'x'] }, 'different names'],
    [{ exclusive: false }, 'without exclusive'],
    [{ accountOf: undefined }, 'without accountOf(chat)'],
  ];

  for (const [wrong, message] of refusals) expect(made(wrong)).toThrow(message);
  expect(() => new Bot({ provider: new Lines(['x']), balanceMs: 0 })).toThrow('balanceMs is 0');
});
