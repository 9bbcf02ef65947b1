import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { parse } from './command.js';
import { type Ending, isAlive, Program } from './testing/Program.js';

const programs: Program[] = [];

function start(...args: string[]): Program {
  return kept(Program.piped(...args));
}

function kept(program: Program): Program {
  programs.push(program);
  return program;
}

/** Runs the built program on `input`. */
function run(input: string | Uint8Array): Promise<Ending> {
  return start().end(input);
}

afterEach(async () => {
  await Promise.all(programs.splice(0).map((program) => program.clear()));
});

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

const said = (letter: string, to: number) => [...Array(to).keys()].map((i) => `You said: ${letter}${i + 1}`);

describe('piped input', { timeout: 60_000 }, () => {
  test('each chat is answered in order, over several processes, and nothing else is printed', async () => {
    const { code, out, err } = await run('ana: hi\nben: hi\nana: signup\nana: Ana\n');

    expect(answers(out)).toEqual({
      ana: ['Hello!', 'What is your name?', 'Nice to meet you, Ana!'],
      ben: ['Hello!'],
    });
    expect(new Set(out.match(/replica \d/g)).size).toBe(3);
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });

  test('the process that has a chat is killed in mid-turn: nothing is lost, nothing reordered', async () => {
    const program = start().write('ana: slow 2\nben: slow 2\n');
    const pids = await program.replicas();
    const [, holder] = await program.notices(/chat ana: held by replica (\d)/);
    process.kill(pids.get(Number(holder)) ?? 0, 'SIGKILL');
    const lines: string[] = [];
    for (let i = 1; i <= 20; i++) lines.push(`ana: a${i}`, `ben: b${i}`);
    const { code, out } = await program.end(lines.join('\n'));

    expect(answers(out)).toEqual({
      ana: ['That took 2 s.', ...said('a', 20)],
      ben: ['That took 2 s.', ...said('b', 20)],
    });
    expect(out).toMatch(/^ana: That took 2 s\. \(replica \d, message 1 of this chat, taken over\)$/m);
    expect(code).toBe(0);
  });

  test('of three chats, through kill after kill, each message is answered once and counted once by its chat', async () => {
    const lines: string[] = [];
    for (let i = 1; i <= 40; i++) {
      for (const chat of ['ana', 'ben', 'cleo']) lines.push(`${chat}: ${i % 10 === 5 ? 'slow 0' : i}`);
      if (i % 8 === 0) lines.push(`/kill ${(i / 8) % 3 || 3}`);
      if (i === 10) lines.push('/freeze 3');
      if (i === 20) lines.push('/thaw 3');
    }
    const { code, out } = await run(lines.join('\n'));

    const counted = (chat: string) =>
      [...out.matchAll(new RegExp(`^${chat}: .*message (\\d+) of`, 'gm'))].map(([, n]) => Number(n));
    const each = [...Array(40).keys()].map((i) => i + 1);
    expect({ ana: counted('ana'), ben: counted('ben'), cleo: counted('cleo') }).toEqual({
      ana: each,
      ben: each,
      cleo: each,
    });
    expect(code).toBe(0);
  });

  test('with every replica killed, the new ones answer', async () => {
    const { code, out } = await run('ana: hi\n/kill 1\n/kill 2\n/crash 3\nana: hey\n');

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

  test('when every replica is frozen and nobody is left to thaw them, they go on', async () => {
    const { code, out } = await run('ana: slow 1\n/freeze 1\n/freeze 2\n/freeze 3\n');

    expect(answers(out)).toEqual({ ana: ['That took 1 s.'] });
    expect(code).toBe(0);
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

  test('no input is no error, and leaves nothing', async () => {
    const program = start();

    expect(await program.end()).toEqual({ code: 0, out: '', err: '' });
    expect(program.litter).toEqual([]);
  });

  test('lines that are not clear are told of, and the others answered', async () => {
    const { code, out, err } = await run('hi\n: hi\n/jump\n/kill\n/kill 9\n\nana: hi\n');

    expect(err.split('\n')).toEqual([
      expect.stringMatching(/^line 1 is not clear, it has no colon/),
      expect.stringMatching(/^line 2 is not clear, it names no chat/),
      expect.stringMatching(/^line 3 is not clear, there is no such command/),
      expect.stringMatching(/^line 4 is not clear, \/kill needs/),
      expect.stringMatching(/^there is no replica 9/),
      '',
    ]);
    expect(answers(out)).toEqual({ ana: ['Hello!'] });
    expect(code).toBe(0);
  });

  test('input in which no line is a message ends with 1', async () => {
    expect(await run('hi\n')).toMatchObject({ code: 1, out: '', err: expect.stringMatching(/^line 1 is not clear/) });
  });

  test('an end before the answers says whose are missing', async () => {
    const program = start().write('ana: slow 30\nana: hi\nben: slow 30\n/status\n');
    await program.notices(/replica 3/);
    const { err } = await program.signal('SIGTERM').ended;

    expect(err).toMatch(/^ends; not answered: ana \(2 messages\), ben \(1 message\)$/m);
  });
});

describe.skipIf(process.platform !== 'linux')('a terminal', { timeout: 60_000 }, () => {
  test('what is not clear is told of without the number of a line; /help and /start do as they say', async () => {
    const program = kept(Program.typed());
    await program.shows(/Or write here/);
    program.write('/jump\n/help\n/start\n/status\n');
    await program.shows(/replica 4: /);
    const { code, out } = await program.write('/quit\n').ended;

    expect(out).toMatch(/\[there is no such command; there are .*\/start/);
    expect(out).toMatch(/\[\/quit +waits for the answers, and ends/);
    expect(out).toMatch(/\[replica 4 starts\]/);
    expect(out).not.toMatch(/\bline \d/);
    expect(code).toBe(0);
  });

  test('/quit says what it waits for, and ends after the answer', async () => {
    const program = kept(Program.typed());
    await program.shows(/Or write here/);
    const { code, out } = await program.write('slow 2\n/quit\n').ended;

    expect(out).toMatch(/\[waits for you \(1 message\); Ctrl-C ends at once\].*you: That took 2 s\./s);
    expect(code).toBe(0);
  });

  test('Ctrl-C after /quit ends at once, and says what was not answered', async () => {
    const program = kept(Program.typed());
    await program.shows(/Or write here/);
    await program.write('ana: slow 30\n/quit\n').shows(/waits for/);
    const { out } = await program.write('\u0003').ended;

    expect(out).toMatch(/\[ends; not answered: ana \(1 message\)\]/);
    expect(program.litter).toEqual([]);
  });

  test('a terminal that is closed in mid-turn leaves no process and no file', async () => {
    const program = kept(Program.typed());
    await program.shows(/Or write here/);
    await program.write('ana: slow 30\nben: slow 1\n').shows(/ben: That took 1 s\./);
    await program.write('/status\n').shows(/replica 3: /);
    const { out } = await program.signal('SIGKILL').ended;
    const pids = [...out.matchAll(/process (\d+)/g)].map(([, pid]) => Number(pid));
    await until(() => !pids.some(isAlive) && program.litter.length === 0);

    expect(pids.length).toBeGreaterThanOrEqual(3);
    expect(pids.filter(isAlive)).toEqual([]);
    expect(program.litter).toEqual([]);
  });
});

/** Resolves when it holds, or after ten seconds. */
async function until(holds: () => boolean): Promise<void> {
  const deadline = Date.now() + 10_000;
  while (!holds() && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 20));
}

describe('the end', { timeout: 60_000 }, () => {
  test.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s in mid-turn leaves no process and no file',
    async (signal) => {
      const program = start().write('ana: slow 30\n');
      const pids = [...(await program.replicas()).values()];
      process.kill(pids[0] ?? 0, 'SIGKILL');
      process.kill(pids[1] ?? 0, 'SIGSTOP');
      const { code } = await program.signal(signal).ended;

      expect(code).toBe(0);
      expect(pids.filter(isAlive)).toEqual([]);
      expect(program.litter).toEqual([]);
    },
  );

  test('replicas whose parent was killed end by themselves', async () => {
    const program = start();
    const pids = [...(await program.replicas()).values()];
    await program.signal('SIGKILL').ended;
    await until(() => !pids.some(isAlive));

    expect(pids.filter(isAlive)).toEqual([]);
  });

  test('SIGTERM to npm alone leaves no process and no file', async () => {
    const program = kept(Program.byNpm('--page'));
    const pids = [...(await program.replicas()).values()];
    await program.signal('SIGTERM').ended;

    expect(pids.filter(isAlive)).toEqual([]);
    expect(program.litter).toEqual([]);
  });

  test.each([
    [['--paeg'], '"--paeg" is not clear. There are --page, --port N and --help.\n'],
    [['--port', '99999'], '--port is "99999". Give a number from 0 to 65535; 0 takes any that is free.\n'],
    [['--port'], '--port is "". Give a number from 0 to 65535; 0 takes any that is free.\n'],
  ])('%j is told of', async (args, err) => {
    expect(await start(...args).end()).toEqual({ code: 2, out: '', err });
  });

  test('--help says what there is', async () => {
    expect(await start('--help').end()).toMatchObject({ code: 0, out: expect.stringMatching(/--port N/), err: '' });
  });

  test('a port that is in use is told of, and nothing is left', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const program = start('--page', '--port', `${port}`);
    const ending = await program.end();
    server.close();

    expect(ending).toEqual({ code: 1, out: '', err: `port ${port} is in use: give another one with --port N\n` });
    expect(program.litter).toEqual([]);
  });
});

test('on a terminal a line without a chat’s name belongs to the chat you', () => {
  expect(parse('hi', 'you')).toEqual({ kind: 'message', chat: 'you', text: 'hi' });
  expect(parse('note to self: milk', 'you')).toMatchObject({ chat: 'you', text: 'note to self: milk' });
  expect(parse('ana: hi', 'you')).toEqual({ kind: 'message', chat: 'ana', text: 'hi' });
});
