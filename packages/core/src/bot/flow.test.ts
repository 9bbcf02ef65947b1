import { afterEach, beforeEach, expect, expectTypeOf, test, vi } from 'vitest';
import { type BotMesh, botMesh, gate } from '../testing/bots.js';
import type { Bot } from './Bot.js';
import { flow } from './flow.js';

let lab: BotMesh;
beforeEach(() => {
  lab = botMesh();
});
afterEach(() => lab.close());

/** What a bot says to these messages of one chat, which go to two replicas in turn. */
async function talk(set: (bot: Bot) => unknown, ...texts: string[]): Promise<string[]> {
  const ended = gate();
  const teach = (bot: Bot) => {
    bot.use((ctx, next) => (ctx.message.text === 'END' ? ended.open() : next()));
    set(bot);
  };
  const replicas = [await lab.replica(teach), await lab.replica(teach)];
  for (const [i, text] of [...texts, 'END'].entries()) await replicas[i % 2]?.provider.receive({ chat: 'k', text });
  await ended.opened;
  return lab.textsTo('k');
}

const signup = flow('signup')
  .ask('Name?', 'name')
  .ask((_ctx, c) => `Age, ${c.state.name}?`, 'age', {
    parse: (text) => (/^\d+$/.test(text) ? Number(text) : undefined),
    again: 'A number, please.',
  })
  .say((_ctx, c) => `${c.state.name} is ${c.state.age}.`);

test('answers are kept by key with their types, across messages and replicas', async () => {
  const typed = flow('t')
    .ask('?', 'name')
    .ask('?', 'age', { parse: Number })
    .do((_ctx, c) => {
      expectTypeOf(c.state.name).toEqualTypeOf<string>();
      expectTypeOf(c.state.age).toEqualTypeOf<number>();
      expectTypeOf(c.state).not.toHaveProperty('nobody');
    });
  expect(typed.name).toBe('t');

  expect(await talk((bot) => bot.use(signup), 'SIGNUP ', 'Ana', '30')).toEqual(['Name?', 'Age, Ana?', 'Ana is 30.']);
});

test('a refused answer is asked for again', async () => {
  const said = await talk((bot) => bot.use(signup), 'signup', 'Ana', 'old', '30');

  expect(said).toEqual(['Name?', 'Age, Ana?', 'A number, please.', 'Ana is 30.']);
});

// C-16
test('a second message that would start the flow is its first answer', async () => {
  expect(await talk((bot) => bot.use(signup), 'signup', 'signup')).toEqual(['Name?', 'Age, signup?']);
});

test('a chat in a flow goes on with it, whatever else would match', async () => {
  const said = await talk(
    (bot) => {
      bot.when('hi', (ctx) => ctx.reply('Hello!'));
      bot.use(flow('other').say('other'));
      bot.use(signup);
    },
    'hi',
    'signup',
    'hi',
    'other',
    '30',
    'hi',
  );

  expect(said).toEqual(['Hello!', 'Name?', 'Age, hi?', 'A number, please.', 'hi is 30.', 'Hello!']);
});

test('middleware before a flow still sees its messages', async () => {
  const seen: string[] = [];
  await talk(
    (bot) => {
      bot.use(async (ctx, next) => {
        seen.push(ctx.message.text);
        await next();
      });
      bot.use(signup);
    },
    'signup',
    'Ana',
  );

  expect(seen).toEqual(['signup', 'Ana']);
});

test('the cancel word leaves the flow; each flow may have its own, or none', async () => {
  const own = flow('own', { cancel: 'stop', cancelled: 'Stopped.' }).ask('own?', 'a').say('own done');
  const none = flow('none', { cancel: false }).ask('none?', 'a').say('none done');
  const set = (bot: Bot) => bot.use(signup).use(own).use(none);

  const said = await talk(set, 'signup', ' Cancel', 'own', 'stop', 'own', 'cancel', 'none', 'cancel');

  expect(said).toEqual(['Name?', 'Cancelled.', 'own?', 'Stopped.', 'own?', 'own done', 'none?', 'none done']);
});

test('a flow may start at a match of its own, and not at its name', async () => {
  const own = flow('own', { when: /^\/start\b/ }).say('started');

  expect(await talk((bot) => bot.use(own), 'own', '/start now')).toEqual(['started']);
});

test('other chats are not in the flow', async () => {
  const { provider } = await lab.alone((bot) => {
    bot.use(signup);
    bot.use((ctx) => ctx.reply('what?'));
  });

  await provider.receive({ chat: 'a', text: 'signup' });
  await provider.receive({ chat: 'b', text: 'Ana' });
  await provider.hasSent(2);

  expect(provider.textsTo('b')).toEqual(['what?']);
});

test('a step that fails is run again, with the answers as they were', async () => {
  const errors = vi.fn();
  let tries = 0;
  const set = (bot: Bot) => {
    bot.onError(errors);
    bot.use(
      flow('f')
        .ask('one?', 'one')
        .do((_ctx, c) => {
          tries++;
          c.state.one += '!';
          if (tries === 1) throw new Error('once');
        })
        .say((_ctx, c) => c.state.one),
    );
  };

  expect(await talk(set, 'f', 'x')).toEqual(['one?', 'x!']);
  expect(errors).toHaveBeenCalledOnce();
});

test('a chat whose flow is gone since the last version is free', async () => {
  const before = await lab.replica((bot) => bot.use(flow('old').ask('old?', 'a')));
  await before.provider.receive({ chat: 'k', text: 'old' });
  await before.provider.hasSent(1);
  await before.bot.stop();

  expect(await talk((bot) => bot.when('hi', (ctx) => ctx.reply('Hello!')), 'hi')).toEqual(['old?', 'Hello!']);
});

test('nothing is said for an empty or missing text', async () => {
  const quiet = flow('quiet')
    .say('')
    .say(() => undefined)
    .say({ text: 'loud' });

  expect(await talk((bot) => bot.use(quiet), 'quiet')).toEqual(['loud']);
});

test('a flow is not changed by what is added to it, and refuses a key asked twice', () => {
  const base = flow('base').ask('?', 'a');
  expect(base.say('x')).not.toBe(base);
  expect(() => base.ask('?', 'a')).toThrow(/'a' is asked twice/);
  expect(() => flow(' ')).toThrow(/name/);
});
