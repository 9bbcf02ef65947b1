// A reply that nobody waits for may leave after the handler has ended. The linter of this repository finds it.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const run = promisify(execFile);

const program = (statement: string): string => `
import { Bot, terminal } from '@botmesh/core';

const bot = new Bot({ provider: terminal() });
bot.when('hi', async (ctx) => {
  ${statement}
});
`;

let folder = '';

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'botmesh-lint-'));
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  writeFileSync(join(folder, '.oxlintrc.json'), readFileSync(join(root, '.oxlintrc.json')));
  const tsconfig = {
    extends: join(root, 'tsconfig.base.json'),
    compilerOptions: { composite: false },
    include: ['*.ts'],
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig));
});

afterAll(() => rmSync(folder, { recursive: true }));

/** What the linter says of a bot whose handler is `statement`, and whether it is content. */
async function lint(name: string, statement: string): Promise<{ isFine: boolean; said: string }> {
  writeFileSync(join(folder, `${name}.ts`), program(statement));
  const oxlint = join(root, 'node_modules/.bin/oxlint');
  try {
    const { stdout } = await run(oxlint, ['--type-aware', '--deny-warnings', `${name}.ts`], { cwd: folder });
    return { isFine: true, said: stdout };
  } catch (error) {
    return { isFine: false, said: (error as { stdout: string }).stdout };
  }
}

test.each([
  ['a forgotten await of a reply', "ctx.reply('Hello!');"],
  ['a forgotten await of a hold', "ctx.hold('user');"],
])(
  '%s is found',
  async (name, statement) => {
    const { isFine, said } = await lint(name.replaceAll(' ', '-'), statement);

    expect(said).toContain('no-floating-promises');
    expect(isFine).toBe(false);
  },
  30_000,
);

test('one that is awaited, or left on purpose, is not', async () => {
  expect(await lint('awaited', "await ctx.reply('Hello!');")).toMatchObject({ isFine: true });
  expect(await lint('left', "void ctx.reply('Hello!');")).toMatchObject({ isFine: true });
}, 30_000);
