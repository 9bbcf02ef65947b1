import { spawn, spawnSync } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { parse } from './command.js';

const program = fileURLToPath(new URL('../dist/main.js', import.meta.url));

/** Runs the built program on `input`. */
function run(input: string | Uint8Array): Promise<{ code: number | null; out: string; err: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program], { timeout: 15_000 });
    const out: Buffer[] = [];
    const err: Buffer[] = [];
    child.stdout.on('data', (chunk: Buffer) => out.push(chunk));
    child.stderr.on('data', (chunk: Buffer) => err.push(chunk));
    child.on('error', reject);
    child.on('close', (code) =>
      resolve({ code, out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString() }),
    );
    child.stdin.end(input);
  });
}

/** What was said to each chat, in order, without the note about the replica. */
function answers(out: string): Record<string, string[]> {
  const found: Record<string, string[]> = {};
  for (const line of out.split('\n').slice(0, -1)) {
    const [, chat = '', text = ''] =
      /^([^:]*): (.*) \(replica \d+, message \d+ of this chat(?:, taken over)?\)$/.exec(line) ?? [];
    found[chat] ??= [];
    found[chat].push(text);
  }
  return found;
}

describe('piped input', () => {
  test('each chat is answered in order, over several replicas, and nothing else is printed', async () => {
    const { code, out, err } = await run('ana: hi\nben: hi\nana: signup\nana: Ana\n');

    expect(answers(out)).toEqual({
      ana: ['Hello!', 'What is your name?', 'Nice to meet you, Ana!'],
      ben: ['Hello!'],
    });
    expect(new Set(out.match(/replica \d/g)).size).toBe(3);
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  test('a crash in the middle of a turn loses nothing and reorders nothing', async () => {
    const lines = ['ana: slow 1', 'ben: slow 1', '/crash 1', '/crash 2'];
    for (let i = 1; i <= 20; i++) lines.push(`ana: a${i}`, `ben: b${i}`);
    const { code, out } = await run(lines.join('\n'));

    const said = (letter: string) => [...Array(20).keys()].map((i) => `You said: ${letter}${i + 1}`);
    expect(answers(out)).toEqual({ ana: ['That took 1 s.', ...said('a')], ben: ['That took 1 s.', ...said('b')] });
    expect(out.match(/, taken over\)/g)?.length).toBeGreaterThanOrEqual(2);
    expect(code).toBe(0);
  });

  test('with every replica crashed, the new ones answer', async () => {
    const { code, out } = await run('ana: hi\n/crash 1\n/crash 2\n/crash 3\nana: hey\n');

    expect(answers(out)).toEqual({ ana: ['Hello!', 'Hello!'] });
    expect(code).toBe(0);
  });

  test('a frozen replica’s chat goes on elsewhere after its lease, and is not answered twice', async () => {
    const { code, out, err } = await run('ana: slow 1\n/freeze 1\nana: hi\n');

    expect(out.split('\n')).toEqual([
      expect.stringMatching(/^ana: That took 1 s\. \(replica [23], message 1 of this chat, taken over\)$/),
      expect.stringMatching(/^ana: Hello! \(replica [23], message 2 of this chat\)$/),
      '',
    ]);
    expect(err).toMatch(/replica 1 goes on/);
    expect(code).toBe(0);
  });

  test('when every replica is frozen at the end of the input, they go on', async () => {
    const { code, out } = await run('ana: slow 1\n/freeze 1\n/freeze 2\n/freeze 3\n');

    expect(answers(out)).toEqual({ ana: ['That took 1 s.'] });
    expect(code).toBe(0);
  });

  test('lines that come while every replica is frozen are read on, and answered in order once one goes on', async () => {
    const lines = ['/freeze 1', '/freeze 2', '/freeze 3', 'ana: one', 'ben: hi', 'ana: two', '/thaw 1', 'ana: three'];
    const { code, out, err } = await run(`${lines.join('\n')}\n`);

    expect(answers(out)).toEqual({
      ana: ['You said: one', 'You said: two', 'You said: three'],
      ben: ['Hello!'],
    });
    expect(err).toMatch(/no replica runs.*\nreplica 1 goes on/);
    expect(code).toBe(0);
  });

  test('lines that wait at the end of the input, with every replica frozen, are answered', async () => {
    const { code, out } = await run('/freeze 1\n/freeze 2\n/freeze 3\nana: hi\nana: hey\n');

    expect(answers(out)).toEqual({ ana: ['Hello!', 'Hello!'] });
    expect(code).toBe(0);
  });

  test('a replica frozen again at once holds up no line', async () => {
    const freeze = '/freeze 1\n/freeze 2\n/freeze 3\n';
    const { code, out } = await run(`${freeze}ana: hi\n/thaw 1\n/freeze 1\nana: hey\n/thaw 2\nana: hello\n`);

    expect(answers(out)).toEqual({ ana: ['Hello!', 'Hello!', 'Hello!'] });
    expect(code).toBe(0);
  });

  test('which replica is at work on a slow answer is told', async () => {
    const { out, err } = await run('ana: slow 1\n');

    const [, number] = /^replica (\d) is at work on it$/m.exec(err) ?? [];
    expect(out).toContain(`(replica ${number}, `);
  });

  test('a line of a megabyte is answered', async () => {
    const { code, out } = await run(`ana: ${'x'.repeat(1_000_000)}\nana: hi\n`);

    expect(answers(out).ana?.[0]).toMatch(/^You said: x{60}… \(1000000 characters\)$/);
    expect(answers(out).ana?.[1]).toBe('Hello!');
    expect(code).toBe(0);
  });

  test('bytes that are no text do no harm', async () => {
    const noise = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7919 + (i >> 3) * 31) % 256);
    const { code, err } = await run(noise);

    expect(err).not.toMatch(/at .*\.js:\d+/);
    expect(code).toBe(0);
  });

  test('no input is no error', async () => {
    expect(await run('')).toEqual({ code: 0, out: '', err: '' });
  });

  test('lines that are not clear are told of, and the others answered', async () => {
    const { code, out, err } = await run('hi\n: hi\n/jump\n/crash\n/crash 9\n\nana: hi\n');

    expect(err.split('\n')).toEqual([
      expect.stringMatching(/^line 1 is not clear, it has no colon/),
      expect.stringMatching(/^line 2 is not clear, it names no chat/),
      expect.stringMatching(/^line 3 is not clear, there is no such command/),
      expect.stringMatching(/^line 4 is not clear, \/crash needs/),
      expect.stringMatching(/^there is no replica 9/),
      '',
    ]);
    expect(answers(out)).toEqual({ ana: ['Hello!'] });
    expect(code).toBe(0);
  });
});

// `script` of util-linux gives the program a terminal.
const hasTerminal = spawnSync('script', ['--version']).stdout?.includes('util-linux') === true;

test.skipIf(!hasTerminal)(
  'on a terminal the first Ctrl-C says what it waits for, and how to leave at once',
  async () => {
    const child = spawn('script', ['-qec', `"${process.execPath}" "${program}"`, '/dev/null'], { timeout: 15_000 });
    let out = '';
    const keys = ['slow 1\r', '\u0003'];
    child.stdout.on('data', (chunk: Buffer) => {
      out += chunk.toString();
      const isDue = keys.length === 2 ? out.includes('Write "hi"') : /is at work on it/.test(out);
      if (isDue && keys.length > 0) child.stdin.write(keys.shift() ?? '');
    });
    const code = await new Promise((resolve) => child.on('close', resolve));

    expect(out).toMatch(/waiting for 1 answer; Ctrl-C again to leave.*That took 1 s\./s);
    expect(code).toBe(0);
  },
);

test('on a terminal a line without a chat’s name belongs to the chat you', () => {
  expect(parse('hi', 'you')).toEqual({ kind: 'message', chat: 'you', text: 'hi' });
  expect(parse('note to self: milk', 'you')).toMatchObject({ chat: 'you', text: 'note to self: milk' });
  expect(parse('ana: hi', 'you')).toEqual({ kind: 'message', chat: 'ana', text: 'hi' });
});
