import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';

interface Manifest {
  name: string;
  version: string;
  license?: string;
  type?: string;
  private?: boolean;
  engines?: Record<string, string>;
  files?: string[];
  scripts?: Record<string, string>;
  dependencies?: Record<string, string>;
  exports: Record<string, string | { types: string; default: string }>;
}

const packages = new URL('../packages/', import.meta.url);
const manifestOf = (name: string): Manifest =>
  JSON.parse(readFileSync(new URL(`${name}/package.json`, packages), 'utf8')) as Manifest;
const names = readdirSync(packages).filter((name) => existsSync(new URL(`${name}/package.json`, packages)));
const core = manifestOf('core');

test('core depends on nothing at run time', () => {
  expect(core.dependencies ?? {}).toEqual({});
});

describe.each(names)('package %s', (name) => {
  const manifest = manifestOf(name);
  const has = (path: string) => existsSync(new URL(`${name}/${path}`, packages));

  test('bears its folder’s name, the common version, licence and engines', () => {
    expect(manifest).toMatchObject({
      name: `@botmesh/${name}`,
      version: core.version,
      license: 'MIT',
      type: 'module',
      engines: core.engines,
    });
  });

  test.skipIf(manifest.private === true)('ships its README and licence', () => {
    expect(manifest.files).toEqual(expect.arrayContaining(['dist', 'README.md', 'LICENSE']));
    expect(['README.md', 'LICENSE'].filter((file) => !has(file))).toEqual([]);
  });

  test('has the same scripts as core', () => {
    expect(Object.keys(manifest.scripts ?? {}).sort()).toEqual(Object.keys(core.scripts ?? {}).sort());
  });

  test('exports only files that are built, each from a source of the same name', () => {
    const targets = Object.values(manifest.exports).flatMap((entry) =>
      typeof entry === 'string' ? [] : [entry.types, entry.default],
    );
    const sources = targets.map((path) => path.replace('/dist/', '/src/').replace(/\.(d\.ts|js)$/, '.ts'));

    expect(targets.length).toBeGreaterThan(0);
    expect([...targets, ...sources].filter((path) => !has(path))).toEqual([]);
  });
});
