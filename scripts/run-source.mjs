// Runs a TypeScript file of this repository as it stands, with the sources of all packages: no build is needed before.
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const root = fileURLToPath(new URL('..', import.meta.url));
const { module: config } = await runnerImport(resolve(root, 'vitest.config.ts'), { configFile: false, root });
await runnerImport(resolve(root, process.argv[2]), { configFile: false, root, resolve: config.default.resolve });
