import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { attempt } from './faults.test-support.js';
import { Presence } from './Presence.js';
import { hasEnded, ownIdentity } from './processes.js';

const own = ownIdentity();
const processes = new URL('../dist/processes.js', import.meta.url).href;
const presence = new URL('../dist/Presence.js', import.meta.url).href;

let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-ended-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

/** What a process prints that runs `code` behind these words of a command. */
function answerOf(code: string, ...before: string[]): unknown {
  const program = `import { openSync } from 'node:fs';
    import { hasEnded, ownIdentity } from '${processes}';
    import { Presence } from '${presence}';
    const print = (it) => console.log(JSON.stringify(it));
    ${code}`;
  const words = [...before, process.execPath, '--input-type=module', '-e', program];
  return JSON.parse(execFileSync(words[0]!, words.slice(1), { encoding: 'utf8', timeout: 20_000 }));
}

const WITHOUT_DESCRIPTORS = ['bash', '-c', 'ulimit -n 100; exec "$@"', 'bash'];
const EXHAUST = `try { for (;;) openSync('/dev/null'); } catch (error) { if (error.code !== 'EMFILE') throw error; }`;

describe.runIf(existsSync('/proc/self/ns/pid'))('a process', () => {
  test('is told to have ended when it did, also as a zombie, or when its pid is another’s by now', async () => {
    const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60000)']);
    const { pid } = child;
    const identity = answerOf(
      `import { readFileSync } from 'node:fs';
       print(readFileSync('/proc/${pid}/stat', 'utf8').split(') ')[1].split(' ')[19]);`,
    ) as string;
    const other = { pid: pid!, start: identity, namespace: own.namespace };
    expect(hasEnded(other, own)).toBe(false);
    expect(hasEnded({ ...other, start: '1' }, own)).toBe(true);
    expect(hasEnded({ ...other, start: '' }, own)).toBe(false);

    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
    expect(hasEnded(other, own)).toBe(true);
  });

  test('may be alive for one that ran out of file descriptors', () => {
    const answer = answerOf(
      `const own = ownIdentity(); ${EXHAUST}
       print([hasEnded(${JSON.stringify(own)}, own), hasEnded({ ...${JSON.stringify(own)}, start: '1' }, own)]);`,
      ...WITHOUT_DESCRIPTORS,
    );

    expect(answer).toEqual([false, false]);
  });

  test('may be alive for one whose namespace could not be read', () => {
    const unknown = { ...own, namespace: '' };

    expect(hasEnded({ ...unknown, start: '1' }, unknown)).toBe(false);
    expect(hasEnded({ ...unknown, pid: 2 ** 22 + 1 }, unknown)).toBe(false);
  });

  test('may be alive where /proc hides it', (context) => {
    const hide = ['unshare', '-m', 'bash', '-c', 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', 'bash'];
    const nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];
    const reason = attempt(hide[0]!, ...hide.slice(1), ...nobody, 'true');
    if (reason !== undefined) return context.skip(reason);
    const answer = answerOf(
      `import { existsSync } from 'node:fs'; const own = ownIdentity();
       print([existsSync('/proc/${own.pid}'), hasEnded(${JSON.stringify(own)}, own)]);`,
      ...hide,
      ...nobody,
    );

    expect(answer).toEqual([false, false]);
  });

  test('may be alive where /proc tells of another namespace', (context) => {
    const inner = ['unshare', '--pid', '--fork'];
    const reason = attempt(inner[0]!, ...inner.slice(1), 'true');
    if (reason !== undefined) return context.skip(reason);
    // Its own pid is 1, which belongs to another process in this /proc.
    const answer = answerOf(
      `const own = ownIdentity();
       print([own.pid, hasEnded(own, own), hasEnded({ ...own, start: '1' }, own), hasEnded({ ...own, pid: 4194300 }, own)]);`,
      ...inner,
    );

    expect(answer).toEqual([1, false, false, true]);
  });

  test('keeps its note, and counts as at work, while another cannot read that for want of file descriptors', () => {
    const path = join(folder, 'mesh.db');
    new Presence(path, own).note('a');
    const code = `import { utimesSync, readdirSync } from 'node:fs';
       const presence = new Presence('${path}', ownIdentity());
       for (const name of readdirSync('${path}-replicas')) utimesSync('${path}-replicas/' + name, 1, 1);
       ${EXHAUST}
       print(presence.hasAny());`;

    expect(answerOf(code, ...WITHOUT_DESCRIPTORS)).toBe(true);
    expect(new Presence(path, own).isNoted('a')).toBe(true);
  });

  test('keeps its note where another user may not read it', (context) => {
    if (process.getuid?.() !== 0) return context.skip('not root');
    const path = join(folder, 'mesh.db');
    const theirs = new Presence(path, own);
    theirs.note('a');
    execFileSync('chmod', ['-R', 'a+rwX', folder]);
    execFileSync('bash', [
      '-c',
      `chmod 600 '${theirs.folder}'/*.seat; touch -d '1 hour ago' '${theirs.folder}'/*.seat`,
    ]);
    const answer = answerOf(
      `print(new Presence('${path}', ownIdentity()).hasAny());`,
      ...['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'],
    );

    expect([answer, theirs.isNoted('a')]).toEqual([true, true]);
  });
});
