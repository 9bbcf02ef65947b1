import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/longest-first.mjs';

const packages = fileURLToPath(new URL('./packages', import.meta.url));

export default defineConfig({
  resolve: {
    // Tests read the sources of every package, so they never run against an old build.
    alias: [
      { find: /^@botmesh\/([^/]+)$/, replacement: `${packages}/$1/src/index.ts` },
      { find: /^@botmesh\/([^/]+)\/(spi|testing)$/, replacement: `${packages}/$1/src/$2.ts` },
    ],
  },
  test: {
    include: [
      'packages/*/src/**/*.test.ts',
      'tests/**/*.test.ts',
      'bench/**/*.test.ts',
      'examples/**/*.test.ts',
      'scripts/*.test.mjs',
    ],
    exclude: ['**/node_modules/**', '**/dist/**'],
    setupFiles: ['tests/guarantees/setup.mjs'],
    sequence: { sequencer: LongestFirst },
    pool: 'forks',
    maxWorkers: 3,
    maxConcurrency: 24,
    testTimeout: 20_000,
    hookTimeout: 20_000,
    dangerouslyIgnoreUnhandledErrors: false,
    coverage: { provider: 'v8', include: ['packages/*/src/**/*.ts'], exclude: ['**/*.test.ts'] },
  },
});
