import type { Intake, Lead, Provider, SendContext } from '../../providers/provider.js';
import { claim, claimEqual } from '../suite/claims.js';
import type { BotLab, LabBot } from './BotLab.js';

const ACCOUNTS = ['ana', 'ben', 'cleo', 'dora', 'emil'];
const SIX = [...ACCOUNTS, 'finn'];

/** A platform with several accounts, which lets one connection of each live, and notes what comes beside it. */
class Platform {
  readonly lab: BotLab;
  readonly accounts: readonly string[];
  /** Who has which account. */
  readonly holders = new Map<string, string>();
  /** Each connection that was tried. */
  readonly tries: string[] = [];
  readonly handled: string[] = [];
  /** What ended handlers by their signals. */
  readonly aborted: string[] = [];
  readonly leads = new Map<string, Lead | undefined>();
  conflicts = 0;
  /** Accounts that were let go before they were closed. */
  closedLate = 0;
  /** How many accounts were without a connection at once, since this was set. */
  mostWithout = 0;
  readonly #intakes = new Map<string, Intake>();

  constructor(lab: BotLab, accounts: readonly string[] = ACCOUNTS) {
    this.lab = lab;
    this.accounts = accounts;
  }

  /** A replica that has its share of the accounts. */
  async replica(name: string, refuses: readonly string[] = []): Promise<LabBot & { name: string }> {
    const provider = this.#provider(name, refuses);
    const set = (bot: LabBot['bot']) =>
      bot.use(async (ctx) => {
        if (ctx.message.text === 'wait' && this.aborted.length === 0) {
          await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve()));
          this.aborted.push(`${(ctx.signal.reason as { code: string }).code} try ${ctx.attempt} by ${name}`);
        }
        ctx.signal.throwIfAborted();
        this.handled.push(`${ctx.message.text} by ${name}`);
        await ctx.reply(ctx.message.text);
      });
    const bot = await this.lab.bot(set, { provider, balanceMs: this.lab.leaseMs / 10 });
    return Object.assign(bot, { name });
  }

  /** The process is dead, and its connections with it. */
  drop({ name }: { name: string }): void {
    for (const [account, holder] of this.holders) if (holder === name) this.holders.delete(account);
  }

  /** A message comes to an account. */
  async write(chat: string, text: string): Promise<void> {
    await this.#intakes.get(accountOf(chat))?.({ chat, id: text, text });
  }

  /** How many accounts each has, the fewest first. */
  shares(): number[] {
    const counts = new Map<string, number>();
    for (const holder of this.holders.values()) counts.set(holder, (counts.get(holder) ?? 0) + 1);
    return [...counts.values()].toSorted((a, b) => a - b);
  }

  async settled(shares: readonly number[], ms: number): Promise<void> {
    await this.lab.until(ms, () => String(this.shares()) === String(shares), `shares of ${String(shares)}`);
  }

  #provider(name: string, refuses: readonly string[]): Provider {
    const leads = new Map<string, Lead | undefined>();
    return {
      name: 'lines',
      exclusive: true,
      accounts: this.accounts,
      accountOf,
      start: (intake, lead, account = '') => {
        this.tries.push(`${account} by ${name}`);
        if (refuses.includes(account)) throw new Error('replaced');
        if (this.holders.has(account)) this.conflicts += 1;
        this.holders.set(account, name);
        this.#intakes.set(account, intake);
        leads.set(account, lead);
        this.leads.set(account, lead);
      },
      stop: () => {},
      close: (account = '') => {
        if (leads.get(account)?.signal.aborted) this.closedLate += 1;
        if (!leads.delete(account)) return;
        if (this.holders.get(account) === name) this.holders.delete(account);
        this.mostWithout = Math.max(this.mostWithout, this.accounts.length - this.holders.size);
      },
      webhook: async (request, intake) =>
        Response.json(await intake((await request.json()) as { chat: string; text: string })),
      send: (chat, { text }, { fence, key }: SendContext) => {
        claimEqual(this.holders.get(accountOf(chat)), name, `who has the account of ${chat} when ${text} is sent`);
        leads.get(accountOf(chat))?.assertHeld();
        this.lab.sent.push({ chat, text, reply: { text }, fence, key });
      },
    };
  }
}

const accountOf = (chat: string): string => chat.split('/')[0]!;

async function readiness({ bot }: LabBot): Promise<{ status: string; accounts: Record<string, string> }> {
  const answer = await bot.webhook(new Request('http://bot/readyz'));
  return (await answer.json()) as { status: string; accounts: Record<string, string> };
}

const accountsThat = (is: string, accounts: Record<string, string>): string[] =>
  Object.keys(accounts).filter((account) => accounts[account] === is);

/** Facts of providers that have several accounts, with one connection each. */
export const accounts: Record<string, (lab: BotLab) => Promise<void>> = {
  'accounts are shared by the replicas there are, give or take one, and each says which it has': async (lab) => {
    const platform = new Platform(lab);
    const bots = await Promise.all(['a', 'b', 'c'].map((name) => platform.replica(name)));

    await platform.settled([1, 2, 2], 4 * lab.leaseMs);
    const tries = platform.tries.length;
    await lab.sleep(lab.leaseMs);

    claimEqual(platform.shares(), [1, 2, 2], 'shares a while later');
    claimEqual(platform.tries.length, tries, 'connections a while later');
    claimEqual(platform.conflicts, 0, 'conflicts');
    for (const bot of bots) {
      const { status, accounts: places } = await readiness(bot);
      const own = ACCOUNTS.filter((account) => platform.holders.get(account) === bot.name);
      claimEqual([status, accountsThat('held', places)], ['ready', own], `what ${bot.name} says that it has`);
      claimEqual(accountsThat('standby', places).length, ACCOUNTS.length - own.length, `where ${bot.name} stands by`);
    }
  },

  'a handler whose account is lost, though not its turn, hears it by its signal, and its message goes where the account is':
    async (lab) => {
      const platform = new Platform(lab, ['ana', 'ben']);
      await Promise.all(['a', 'b'].map((name) => platform.replica(name)));
      await platform.settled([1, 1], 4 * lab.leaseMs);
      const first = platform.holders.get('ana')!;
      await platform.write('ana/k', 'wait');
      await lab.sleep(lab.leaseMs / 20);

      // The platform says that somebody else is connected.
      platform.leads.get('ana')!.giveUp!(new Error('replaced'));
      await lab.until(4 * lab.leaseMs, () => platform.handled.length === 1, 'its end');

      const second = platform.holders.get('ana')!;
      claimEqual(platform.aborted, [`lease-lost try 1 by ${first}`], 'what ended the handler');
      claimEqual(platform.handled, [`wait by ${second}`], 'who handled it');
      claimEqual([platform.conflicts, lab.textsTo('ana/k')], [0, ['wait']], 'conflicts, and replies');
    },

  'a replica that joins is given its share, one account at a time, each closed before it is let go': async (lab) => {
    const platform = new Platform(lab, SIX);
    await Promise.all(['a', 'b'].map((name) => platform.replica(name)));
    await platform.settled([3, 3], 4 * lab.leaseMs);
    const tries = platform.tries.length;
    platform.mostWithout = 0;

    await platform.replica('c');
    await platform.settled([2, 2, 2], 4 * lab.leaseMs);

    claimEqual(platform.mostWithout, 1, 'accounts without a connection at once');
    claimEqual([platform.conflicts, platform.closedLate], [0, 0], 'conflicts, and accounts that were closed too late');
    claimEqual(platform.tries.length - tries, 2, 'connections for that');
  },

  'a replica that leaves closes each account before another one connects it, and what it had is shared out': async (
    lab,
  ) => {
    const platform = new Platform(lab);
    const [a] = await Promise.all(['a', 'b', 'c'].map((name) => platform.replica(name)));
    await platform.settled([1, 2, 2], 4 * lab.leaseMs);

    await a!.bot.stop({ drainMs: lab.leaseMs });
    claim(![...platform.holders.values()].includes('a'), 'it stopped and has an account');
    await platform.settled([2, 3], 4 * lab.leaseMs);

    claimEqual([platform.conflicts, platform.closedLate], [0, 0], 'conflicts, and accounts that were closed too late');
  },

  'the accounts of a replica that died are taken over within the lease, and each chat goes on in its order': async (
    lab,
  ) => {
    const platform = new Platform(lab);
    const [a] = await Promise.all(['a', 'b', 'c'].map((name) => platform.replica(name)));
    await platform.settled([1, 2, 2], 4 * lab.leaseMs);
    const chats = ACCOUNTS.map((account) => `${account}/1`);
    for (const n of [1, 2]) for (const chat of chats) await platform.write(chat, `${chat} ${n}`);

    a!.crash();
    platform.drop(a!);
    // One look, and what a busy machine takes to connect.
    await lab.until(lab.takenOverMs + lab.leaseMs / 6, () => platform.holders.size === 5, 'all connections');
    for (const chat of chats) await platform.write(chat, `${chat} 3`);
    await lab.until(2 * lab.takenOverMs, () => new Set(lab.sent.map(({ text }) => text)).size === 15, 'the replies');
    await platform.settled([2, 3], 4 * lab.leaseMs);

    claimEqual(platform.conflicts, 0, 'conflicts');
    for (const chat of chats) {
      claimEqual(
        [...new Set(lab.textsTo(chat))],
        [1, 2, 3].map((n) => `${chat} ${n}`),
        `replies to ${chat}`,
      );
    }
  },

  'a replica that is cut off has closed its accounts before another one connects them': async (lab) => {
    const platform = new Platform(lab);
    const [a] = await Promise.all(['a', 'b'].map((name) => platform.replica(name)));
    await platform.settled([2, 3], 4 * lab.leaseMs);

    a!.replica.cut();
    await platform.settled([5], lab.takenOverMs + lab.leaseMs);
    a!.replica.heal();
    await platform.settled([2, 3], 6 * lab.leaseMs);

    claimEqual(platform.conflicts, 0, 'conflicts');
  },

  'an account that a replica cannot connect is left to another one, and not fought for': async (lab) => {
    const platform = new Platform(lab);
    const a = await platform.replica('a', ['cleo']);
    await lab.until(lab.leaseMs, () => platform.holders.size === 4, 'the others');
    claimEqual(accountsThat('conflict', (await readiness(a)).accounts), ['cleo'], 'what a says of cleo');
    await lab.sleep(2 * lab.leaseMs);
    const alone = platform.tries.filter((each) => each === 'cleo by a').length;
    claim(alone > 1 && alone <= 6, `alone, it tried ${alone} times`);

    await platform.replica('b');
    await lab.until(4 * lab.leaseMs, () => platform.holders.get('cleo') === 'b', 'the account at the other');
    await lab.sleep(lab.leaseMs);

    const tries = platform.tries.filter((each) => each === 'cleo by a').length - alone;
    claim(tries <= 2, `it was tried ${tries} times beside the other`);
    claimEqual(platform.holders.get('cleo'), 'b', 'who has it');
    claimEqual(platform.conflicts, 0, 'conflicts');
  },

  'a replica that can connect no account is not given one after the other': async (lab) => {
    const platform = new Platform(lab);
    await platform.replica('a');
    await platform.settled([5], lab.leaseMs);

    await platform.replica('b', ACCOUNTS);
    await lab.sleep(4 * lab.leaseMs);

    claimEqual(platform.shares(), [5], 'what the first one has');
    claim(platform.tries.length <= 5 + 2 * 2, `connections: ${platform.tries.length}`);
    claimEqual(platform.conflicts, 0, 'conflicts');
  },

  'a message is handled where the account of its chat is, whichever replica took it in': async (lab) => {
    const platform = new Platform(lab);
    const bots = await Promise.all(['a', 'b'].map((name) => platform.replica(name)));
    await platform.settled([2, 3], 4 * lab.leaseMs);

    for (const { bot } of bots) {
      for (const account of ACCOUNTS) {
        const body = JSON.stringify({ chat: `${account}/1`, text: account });
        await bot.webhook(new Request('http://bot/hook', { method: 'POST', body }));
      }
    }
    await lab.until(4 * lab.leaseMs, () => lab.sent.length === 10, 'the replies');

    const expected = ACCOUNTS.flatMap((account) =>
      Array<string>(2).fill(`${account} by ${platform.holders.get(account)}`),
    );
    claimEqual(platform.handled.toSorted(), expected.toSorted(), 'who handled what');
  },
};
