// What the documents say, held against what is there: programs run, names and links exist, tables match the code.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { ERROR_CODES } from '@botmesh/core';
import { emptyRecord, transitions } from '@botmesh/core/spi';
import { coordinatorConformance, inboxConformance, memorySubject, PROMISES } from '@botmesh/core/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

function filesUnder(folder: string, ending: RegExp): string[] {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    if (['node_modules', 'dist', 'coverage', '.git'].includes(entry.name)) return [];
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesUnder(path, ending);
    return ending.test(entry.name) ? [path] : [];
  });
}

interface Fence {
  readonly info: string;
  readonly body: string;
  readonly line: number;
}

interface Document {
  readonly path: string;
  readonly text: string;
  readonly fences: readonly Fence[];
  /** The text without fences. */
  readonly prose: string;
}

function parse(path: string): Document {
  const text = read(path);
  const fences: Fence[] = [];
  const prose = text.replace(/^```([^\n]*)\n(.*?)^```$/gms, (_all, info: string, body: string, at: number) => {
    fences.push({ info: info.trim(), body, line: text.slice(0, at).split('\n').length + 1 });
    return '';
  });
  return { path, text, fences, prose };
}

const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'SECURITY.md']
  .concat(filesUnder('docs', /\.md$/), filesUnder('packages', /\.md$/), filesUnder('examples', /\.md$/))
  .map(parse);
const paths = documents.map(({ path }) => path);

function documentAt(path: string): Document {
  const found = documents.find((each) => each.path === path);
  if (found === undefined) throw new Error(`There is no document ${path}.`);
  return found;
}

const sources = ['packages', 'examples', 'scripts', 'tests', 'bench'].flatMap((folder) =>
  filesUnder(folder, /\.(ts|mjs|json)$/),
);

const proseOf = ({ prose }: Document): string => prose.replace(/`[^`\n]+`/g, '');
const namesIn = ({ prose }: Document): string[] => [...prose.matchAll(/`([^`\n]+)`/g)].map(([, name]) => name ?? '');

function slugs({ prose }: Document): string[] {
  return [...prose.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replace(/\s/g, '-'),
  );
}

describe.each(paths)('%s', (path) => {
  const document = documentAt(path);
  const folder = dirname(path);

  test('links only to what exists', () => {
    const broken = [...document.prose.matchAll(/\]\(([^)\s]+)\)/g)]
      .map(([, target = '']) => target)
      .filter((target) => !/^[a-z]+:/.test(target))
      .filter((target) => {
        const [file = '', anchor] = target.split('#');
        const to = file === '' ? path : relative(root, join(root, folder, file));
        if (!existsSync(join(root, to))) return true;
        return anchor !== undefined && !slugs(documents.find((each) => each.path === to) ?? parse(to)).includes(anchor);
      });

    expect(broken).toEqual([]);
  });

  test('names only files that exist', () => {
    const missing = namesIn(document).filter((name) => {
      if (/^[\w-]+\.(ts|mjs)$/.test(name)) return !sources.some((source) => source.endsWith(`/${name}`));
      const isPath = /^\.?(packages|docs|scripts|examples|tests|bench|\.ci|\.changeset)\/[\w./-]*$/.test(name);
      return isPath && !existsSync(join(root, name));
    });

    expect(missing).toEqual([]);
  });

  test('names only npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const shell = document.fences.filter(({ info }) => info === 'sh').map(({ body }) => body);
    const text = [...shell, ...namesIn(document)].join('\n');
    const named = [...text.matchAll(/\bnpm (?:run ([\w:-]+)|(start|test)\b)/g)].map(([, ran, short]) => ran ?? short);

    expect(named.filter((name) => scripts[name ?? ''] === undefined)).toEqual([]);
  });

  test('names only what the code knows', () => {
    const text = sourceText();
    const unknown = namesIn(document)
      .flatMap((name) => (/^[\w.$]+(?:\([^)]*\))?$/.test(name) ? (name.match(/[A-Za-z_$]\w*/g) ?? []) : []))
      .filter((word) => /[a-z][A-Z]/.test(word) && !text.has(word));

    expect([...new Set(unknown)]).toEqual([]);
  });

  test('names only packages that exist', () => {
    const named = [...document.text.matchAll(/@botmesh\/([\w-]+)/g)].map(([, name]) => name ?? '');

    expect(named.filter((name) => !existsSync(join(root, 'packages', name)))).toEqual([]);
  });

  test('does not call anything easy', () => {
    expect(proseOf(document).match(/\b(just|simply|easily|obviously)\b/gi) ?? []).toEqual([]);
  });

  test('shows code of a file as it is there', () => {
    const changed = document.fences
      .map(({ info, body }) => ({ body, file: /^ts from (\S+)$/.exec(info)?.[1] }))
      .filter(({ file, body }) => file !== undefined && !read(file).includes(body))
      .map(({ file }) => file);

    expect(changed).toEqual([]);
  });
});

let words: Set<string> | undefined;

/** Every word of every source. */
function sourceText(): Set<string> {
  words ??= new Set(sources.flatMap((source) => read(source).match(/[A-Za-z_$][\w$]*/g) ?? []));
  return words;
}

// ── Programs ─────────────────────────────────────────────────────────────────────────────────────────────────────────

/** What a fragment may take for granted. */
const PREAMBLE = `
import type { Context } from '@botmesh/core';
import type { ChatTurn, Coordinator, Inbox, Leadership, Store, Ticket } from '@botmesh/core/spi';
declare const bot: import('@botmesh/core').Bot;
declare const ctx: Context;
declare const coordinator: Coordinator & Inbox;
declare const leadership: Leadership;
declare const store: Store;
declare const ticket: Ticket;
declare const turn: ChatTurn;
declare function handle(message: { body: string; attempt: number }, turn: ChatTurn): Promise<void>;
`;

const TSCONFIG = {
  extends: join(root, 'tsconfig.base.json'),
  compilerOptions: { composite: false, declaration: false, declarationMap: false, sourceMap: false, outDir: 'js' },
  include: ['*.ts'],
};

interface Program {
  readonly name: string;
  readonly where: string;
  readonly isFragment: boolean;
  readonly body: string;
  readonly input: string;
  /** What it prints, where the document says so. */
  readonly output: string | undefined;
}

const programs = documents.flatMap(({ path, fences }) =>
  fences.flatMap(({ info, body, line }, at): Program[] => {
    if (info !== 'ts' && info !== 'ts fragment') return [];
    const input = fences[at + 1]?.info === 'text input' ? (fences[at + 1]?.body ?? '') : '';
    const next = fences[input === '' ? at + 1 : at + 2];
    const output = next?.info === 'text output' ? next.body : undefined;
    const name = `${path.replace(/\W+/g, '-')}-${line}`;
    return [{ name, where: `${path}:${line}`, isFragment: info === 'ts fragment', body, input, output }];
  }),
);

/** Such a program needs a server, and runs until a signal comes. */
const isOnRedis = ({ body }: Program): boolean => body.includes('REDIS_URL');
const isOnPostgres = ({ body }: Program): boolean => body.includes('DATABASE_URL');
const isOnNats = ({ body }: Program): boolean => body.includes('NATS_URL');
const natsServer = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin']
  .map((path) => join(path, 'nats-server'))
  .find((path) => existsSync(path));
const redisServer = (process.env.PATH ?? '')
  .split(delimiter)
  .flatMap((path) => ['redis-server', 'valkey-server'].map((name) => join(path, name)))
  .find((path) => existsSync(path));

/** The folder of the newest PostgreSQL that Debian has put here. */
const postgres = ['18', '17', '16', '15', '14']
  .map((version) => `/usr/lib/postgresql/${version}/bin`)
  .find((path) => existsSync(join(path, 'initdb')));
/** It refuses to run as root. */
const noRoot = process.getuid?.() === 0 ? userNamed(/^(?:postgres|nobody):[^:]*:(\d+):(\d+):/m) : undefined;

function userNamed(pattern: RegExp): { uid: number; gid: number } | undefined {
  const line = pattern.exec(readFileSync('/etc/passwd', 'utf8'));
  return line === null ? undefined : { uid: Number(line[1]), gid: Number(line[2]) };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await once(server.close(), 'close');
  return port;
}

async function printed(child: ChildProcess, text: string): Promise<string> {
  let out = '';
  for await (const part of child.stdout!.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    out += String(part);
    if (out.includes(text)) break;
  }
  return out;
}

async function end(child: ChildProcess): Promise<number | null> {
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
  return child.exitCode;
}

describe('programs in documents', () => {
  let folder = '';
  let complaints = '';

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'botmesh-docs-'));
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(TSCONFIG));
    for (const { name, isFragment, body } of programs) {
      writeFileSync(join(folder, `${name}.ts`), isFragment ? `${PREAMBLE}${body}\nexport {};\n` : body);
    }
    const tsc = run(join(root, 'node_modules/.bin/tsc'), ['-p', folder], { cwd: folder });
    complaints = (await tsc.catch((error: { stdout: string }) => error)).stdout;
  }, 60_000);

  afterAll(() => rmSync(folder, { recursive: true }));

  test('compile against the packages as they are published', () => {
    expect(complaints).toBe('');
  });

  async function runsToItsEnd({ name, input, output }: Program, env = process.env): Promise<void> {
    const child = run(process.execPath, [join(folder, 'js', `${name}.js`)], { cwd: folder, timeout: 30_000, env });
    child.child.stdin?.end(input);
    const { stdout, stderr } = await child;

    expect(stderr).not.toMatch(/\b(Error|Warning):/);
    if (output !== undefined) expect(stdout).toBe(output);
  }

  const whole = programs.filter(({ isFragment }) => !isFragment);

  test.each(whole.filter((program) => ![isOnRedis, isOnPostgres, isOnNats].some((isOn) => isOn(program))))(
    '$where runs to its end',
    (program) => runsToItsEnd(program),
    40_000,
  );

  test.skipIf(redisServer === undefined).each(whole.filter(isOnRedis))(
    '$where runs on a server of its own, and ends by a signal',
    async ({ name, input, output = '' }) => {
      const port = await freePort();
      const settings = ['--port', `${port}`, '--bind', '127.0.0.1', '--appendonly', 'yes', '--dir', folder];
      const server = spawn(redisServer!, settings, { timeout: 60_000 });
      await printed(server, 'Ready to accept connections');
      const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${port}` };
      const program = spawn(process.execPath, [join(folder, 'js', `${name}.js`)], { env, timeout: 50_000 });
      program.stdin.end(input);
      const out = await printed(program, output);
      const code = await end(program);
      await end(server);

      expect(out).toBe(output);
      expect(code).toBe(0);
    },
    60_000,
  );

  test.skipIf(natsServer === undefined).each(whole.filter(isOnNats))(
    '$where runs on a NATS server of its own, and ends by a signal',
    async ({ name, input, output = '' }) => {
      const port = await freePort();
      const data = mkdtempSync(join(tmpdir(), 'botmesh-docs-nats-'));
      const settings = ['-a', '127.0.0.1', '-p', `${port}`, '-js', '-sd', data];
      const server = spawn(natsServer!, settings, { timeout: 60_000 });
      // It prints there what others print on stdout.
      server.stdout = server.stderr;
      await printed(server, 'Server is ready');
      const env = { ...process.env, NATS_URL: `nats://127.0.0.1:${port}` };
      const program = spawn(process.execPath, [join(folder, 'js', `${name}.js`)], { env, timeout: 50_000 });
      program.stdin.end(input);
      const out = await printed(program, output);
      const code = await end(program);
      await end(server);
      rmSync(data, { recursive: true });

      expect(out).toBe(output);
      expect(code).toBe(0);
    },
    60_000,
  );

  test.skipIf(postgres === undefined).each(whole.filter(isOnPostgres))(
    '$where runs on a PostgreSQL of its own, and ends by a signal',
    async ({ name, input, output = '' }) => {
      const port = await freePort();
      const data = mkdtempSync(join(tmpdir(), 'botmesh-docs-postgres-'));
      if (noRoot !== undefined) chownSync(data, noRoot.uid, noRoot.gid);
      const init = ['-D', data, '-A', 'trust', '-U', 'bot', '--no-sync', '-E', 'UTF8', '--locale=C.UTF-8'];
      await run(join(postgres!, 'initdb'), init, { ...noRoot, cwd: data });
      const settings = ['-D', data, '-p', `${port}`, '-h', '127.0.0.1', '-c', 'unix_socket_directories='];
      const server = spawn(join(postgres!, 'postgres'), settings, { ...noRoot, cwd: data, timeout: 60_000 });
      // It prints there what others print on stdout.
      server.stdout = server.stderr;
      await printed(server, 'ready to accept connections');
      const env = { ...process.env, DATABASE_URL: `postgres://bot@127.0.0.1:${port}/postgres` };
      const program = spawn(process.execPath, [join(folder, 'js', `${name}.js`)], { env, timeout: 50_000 });
      program.stdin.end(input);
      const out = await printed(program, output);
      const code = await end(program);
      await end(server);
      rmSync(data, { recursive: true });

      expect(out).toBe(output);
      expect(code).toBe(0);
    },
    60_000,
  );
});

// ── Tables ───────────────────────────────────────────────────────────────────────────────────────────────────────────

describe('README.md', () => {
  const { text } = documentAt('README.md');

  test('names the commands that CI runs', () => {
    expect(text).toContain('npm ci && npm test');
    expect(read('.ci/run')).toMatch(/^npm ci && npm test\b/m);
  });

  test('lists every package that is published', () => {
    const isPublic = (name: string): boolean =>
      (JSON.parse(read(`packages/${name}/package.json`)) as { private?: boolean }).private !== true;
    const names = readdirSync(join(root, 'packages')).filter(isPublic);

    expect(names.filter((name) => !text.includes(`[\`@botmesh/${name}\`](packages/${name}/README.md)`))).toEqual([]);
  });

  test('is short enough to be read', () => {
    expect(text.split('\n').length).toBeLessThanOrEqual(140);
  });
});

describe('docs/errors.md', () => {
  const { prose } = documentAt('docs/errors.md');

  test('explains every error code once, and none that does not exist', () => {
    const explained = [...prose.matchAll(/^## `([\w-]+)`$/gm)].map(([, code]) => code ?? '');
    const byName = (a: string, b: string): number => a.localeCompare(b);

    expect(explained.toSorted(byName)).toEqual(Object.keys(ERROR_CODES).toSorted(byName));
  });

  test('says of each code its class, when it comes, and what to do', () => {
    const sections = prose.split(/^## /m).slice(1);
    const classes = read('packages/core/src/errors.ts');
    const incomplete = sections.filter((section) => {
      const [, code = ''] = /^`([\w-]+)`/.exec(section) ?? [];
      const [, name = ''] = /\*\*Class:\*\* `(\w+)`/.exec(section) ?? [];
      const ofClass = classes.split(/^export (?:abstract )?class /m).find((each) => each.startsWith(`${name} `)) ?? '';
      const hasAll = ['**Class:**', '**When:**', '**What to do:**'].every((part) => section.includes(part));
      return !hasAll || !ofClass.includes(`'${code}'`);
    });

    expect(incomplete.map((section) => section.split('\n')[0])).toEqual([]);
  });
});

describe('docs/guarantees.md', () => {
  const { prose } = documentAt('docs/guarantees.md');
  const sections = prose
    .split(/^### /m)
    .slice(1)
    .map((section) => section.replace(/^## .*/ms, ''));
  const subject = memorySubject();
  const tests = [...coordinatorConformance(subject), ...inboxConformance(subject)].filter(({ promise }) => promise > 0);

  test('has every promise to the letter, and no other', () => {
    const promises = Object.entries(PROMISES).map(([number, sentence]) => `${number}. ${sentence}`);

    expect(sections.map((section) => section.split('\n')[0])).toEqual(promises);
  });

  test('has a test for every promise, with its sentence as the title', () => {
    const tested = new Map<number, string[]>();
    for (const { promise, title } of tests) tested.set(promise, [...(tested.get(promise) ?? []), title]);
    const astray = Object.entries(PROMISES).filter(([number, sentence]) => {
      const titles = tested.get(Number(number)) ?? [];
      return titles.length === 0 || titles.some((title) => title !== sentence && !title.startsWith(`${sentence} — `));
    });

    expect(astray).toEqual([]);
  });

  test('names for every promise the files that have its tests, and rules that are explained', () => {
    const suites = filesUnder('packages/core/src/testing/suite', /\.ts$/);
    const rules = new Set([...prose.matchAll(/^\| (R\d+) \|/gm)].map(([, rule]) => rule));
    const wrong = sections.filter((section, at) => {
      const [, named = '', list = ''] = /^Rules: (.+?)\. Test: (.*)\.$/m.exec(section) ?? [];
      const linked = [...list.matchAll(/\]\((.*?)\)/g)].map(([, file = '']) => join('docs', file));
      const testing = suites.filter((file) => new RegExp(`promised\\(\\s*${at + 1},`).test(read(file)));
      const isRight = linked.toSorted().join() === testing.toSorted().join();
      return !isRight || named.split(', ').some((rule) => !rules.has(rule));
    });

    expect(wrong.map((section) => section.split('\n')[0])).toEqual([]);
  });

  test('names for every promise controls that turn its test red', () => {
    const controls = [
      ...documentAt('docs/mutation-controls.md').text.matchAll(/^\| (.+?) \| (.*?) ?\| ([\d, ]+) \|/gm),
    ];
    const wrong = sections.filter((section, at) => {
      const [, list = ''] = /^Turns red when: (.+) \(\[controls\]\(mutation-controls\.md\)\)\.$/m.exec(section) ?? [];
      return list.split('; ').some((name) => {
        const [, , , promises = ''] = controls.find(([, control]) => control === name) ?? [];
        return !promises.split(', ').includes(String(at + 1));
      });
    });

    expect(wrong.map((section) => section.split('\n')[0])).toEqual([]);
  });

  test('explains every rule that the code names', () => {
    const code = sources.filter((source) => source.startsWith('packages/core/src/coordination/')).map(read);
    const named = new Set(code.flatMap((text) => text.match(/\bR\d+\b/g) ?? []));

    expect([...named].filter((rule) => !prose.includes(`| ${rule} |`))).toEqual([]);
  });
});

describe('docs/operations.md', () => {
  const { prose } = documentAt('docs/operations.md');

  test('has every event of a coordinator, and none that does not exist', () => {
    const [, members = ''] =
      /interface CoordinatorEvents \{(.*?)^\}/ms.exec(read('packages/core/src/coordination/types.ts')) ?? [];
    const events = [...members.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
    const [, table = ''] = /^## Events(.*?)^## /ms.exec(prose) ?? [];
    const described = [...table.matchAll(/^\| `(\w+)/gm)].map(([, name]) => name);

    expect(new Set(described)).toEqual(new Set(events));
  });

  test('has the durations that follow from the lease', () => {
    const rows = [...prose.matchAll(/^\| ([\d.]+) s \|(.*)\|$/gm)].map(([, lease, rest = '']) => ({
      leaseMs: Number(lease) * 1000,
      found: rest.split('|').map((cell) => Number.parseFloat(cell) * 1000),
    }));

    expect(rows.map(({ leaseMs }) => leaseMs)).toEqual([3_000, 6_000, 12_000, 30_000]);
    for (const { leaseMs, found } of rows) {
      const beatMs = leaseMs / 6;
      expect(found).toEqual([beatMs, (2 * leaseMs) / 3, leaseMs + beatMs + 500, quarantineOf(leaseMs)]);
    }
  });
});

/** As a store that lost everything would wait. */
function quarantineOf(leaseMs: number): number {
  const record = emptyRecord();
  const config = { format: 1, leaseMs, shards: 1 };
  const request = { replicaId: 'a', instance: 'a', firstEpoch: 0, config, adopts: false, seen: 0 };
  transitions.join(record, request, { nowMs: 1, run: 'another' }, []);
  return record.quarantineMs;
}

describe('packages/core/README.md', () => {
  const { prose } = documentAt('packages/core/README.md');

  test.each([
    ['a bot', 'packages/core/src/bot/options.ts', 'BotOptions'],
    ['a coordinator', 'packages/core/src/coordination/options.ts', 'CoordinatorOptions'],
  ])('has every option of %s, and none that does not exist', (what, file, name) => {
    const [, members = ''] = new RegExp(`interface ${name}(?:<.*?>)? \\{(.*?)^\\}`, 'ms').exec(read(file)) ?? [];
    const options = [...members.matchAll(/^ {2}(\w+)\??:/gm)].map(([, option]) => option);
    const [, table = ''] = new RegExp(`^## Options of ${what}$(.*?)(?=^## )`, 'ms').exec(prose) ?? [];
    const explained = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, option]) => option);

    expect(explained.length).toBeGreaterThan(0);
    expect(new Set(explained)).toEqual(new Set(options));
  });
});

describe('ARCHITECTURE.md', () => {
  const { text } = documentAt('ARCHITECTURE.md');

  test('has a row for every folder and file that may import what others may not', () => {
    const [, table = ''] = /MAY_IMPORT = \{(.*?)^\};/ms.exec(read('scripts/check-imports.mjs')) ?? [];
    const areas = [...table.matchAll(/^ {2}'([^']+)': \[(.*?)\],$/gms)].map(([, name, list = '']) => ({
      name,
      imports: [...list.matchAll(/'([^']*)'/g)].map(([, each]) => each),
    }));
    const drawn = [...text.matchAll(/^\| `([\w./-]+)` \| (.*?) \|$/gm)].map(([, name, list = '']) => ({
      name,
      imports: list === 'everything' ? [''] : [...list.matchAll(/`([^`]+)`/g)].map(([, each]) => each),
    }));

    expect(areas.length).toBeGreaterThan(5);
    expect(drawn).toEqual(areas);
  });

  test('has every folder of core', () => {
    const folders = readdirSync(join(root, 'packages/core/src')).filter((name) =>
      statSync(join(root, 'packages/core/src', name)).isDirectory(),
    );

    expect(folders.filter((name) => !text.includes(`\`${name}/\``))).toEqual([]);
  });
});
