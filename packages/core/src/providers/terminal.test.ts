import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type BotMesh, botMesh, echo } from '../testing/bots.js';
import { lines } from './lines.js';
import { terminal } from './terminal.js';

const encoder = new TextEncoder();

async function* chunks(...parts: (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield typeof part === 'string' ? encoder.encode(part) : part;
}

function printer() {
  const printed: string[] = [];
  const write = (text: string, done: () => void) => {
    printed.push(text);
    done();
  };
  return { printed, output: { write } };
}

async function all(input: AsyncIterable<string>): Promise<string[]> {
  const found: string[] = [];
  for await (const line of input) found.push(line);
  return found;
}

describe('lines', () => {
  test('end at LF or CR LF and nowhere else, across chunks', async () => {
    expect(await all(lines(chunks('a\r', '\nb\u2028c\rd', '\n\n', 'e')))).toEqual(['a', 'b\u2028c\rd', '', 'e']);
  });

  test('a letter split over two chunks is one letter', async () => {
    const bytes = encoder.encode('é\n');

    expect(await all(lines(chunks(bytes.slice(0, 1), bytes.slice(1))))).toEqual(['é']);
  });

  test('bytes that are no UTF-8 become replacement characters', async () => {
    expect(await all(lines(chunks(Uint8Array.from([0x61, 0xff, 0x0a, 0xe2, 0x82]))))).toEqual(['a\ufffd', '\ufffd']);
  });

  test('a line of many chunks is one line', async () => {
    const many = Array.from({ length: 1000 }, () => 'x'.repeat(1000));

    expect((await all(lines(chunks(...many))))[0]).toHaveLength(1_000_000);
  });

  test('nothing is no line', async () => {
    expect(await all(lines(chunks()))).toEqual([]);
  });
});

describe('terminal', () => {
  let lab: BotMesh;
  beforeEach(() => {
    lab = botMesh();
  });
  afterEach(() => lab.close());

  test('every line is answered in order, and at the end of input the bot stops', async () => {
    const { printed, output } = printer();
    const { bot } = await lab.alone(echo, { provider: terminal({ input: chunks('one\ntwo\n', 'three'), output }) });

    await vi.waitFor(async () => {
      const probe = await bot.webhook(new Request('http://bot/readyz'));
      expect(await probe.json()).toEqual({ status: 'stopped' });
    });

    expect(printed).toEqual(['echo one\n', 'echo two\n', 'echo three\n']);
  });

  test('an output that is closed fails the reply', async () => {
    const output = { write: (_text: string, done: (error?: Error) => void) => done(new Error('EPIPE')) };
    const send = terminal({ input: chunks(), output }).send('you', { text: 'x' }, {} as never);

    await expect(send).rejects.toMatchObject({ code: 'delivery' });
  });
});

test('an option that does not exist is refused by name', () => {
  expect(() => terminal({ inputs: [] } as never)).toThrow(/terminal\(\): there is no option 'inputs'/);
});
