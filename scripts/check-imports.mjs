// Who may import whom, and who may read a clock. The rules are drawn in ARCHITECTURE.md.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseSync, Visitor } from 'vite';

const CORE = 'packages/core/src/';
/** Servers, faults and replicas for tests: itself a test, and not published. */
const LAB = 'packages/lab/';

// A folder or file of core, and what it may import besides its own folder. The longest name that fits counts.
const MAY_IMPORT = {
  'errors.ts': [],
  'time/': ['errors.ts'],
  'coordination/': ['errors.ts', 'time/'],
  'coordination/types.ts': ['errors.ts', 'coordination/store.ts'],
  'coordination/store.ts': ['coordination/types.ts'],
  'coordination/MemoryCoordinator.ts': ['errors.ts', 'time/', 'coordination/', 'testing/MemoryMesh.ts'],
  'state/': ['errors.ts', 'time/', 'coordination/types.ts'],
  'providers/': ['errors.ts', 'time/', 'coordination/types.ts'],
  'pipeline/': ['errors.ts', 'time/', 'coordination/types.ts', 'state/', 'providers/'],
  'bot/': [
    'errors.ts',
    'time/',
    'coordination/types.ts',
    'coordination/MemoryCoordinator.ts',
    'coordination/events.ts',
    'state/',
    'providers/',
    'pipeline/',
  ],
  'binding/': ['errors.ts', 'coordination/types.ts', 'state/', 'providers/', 'pipeline/', 'bot/'],
  'testing/': [''],
  'index.ts': ['errors.ts', 'time/', 'coordination/', 'state/', 'providers/', 'pipeline/', 'bot/'],
  'spi.ts': ['errors.ts', 'time/', 'coordination/', 'state/', 'providers/', 'pipeline/', 'bot/', 'binding/'],
  'testing.ts': [''],
};

const MAY_USE_NODE = [
  'coordination/replica-id.ts',
  'providers/terminal.ts',
  'providers/webhook.ts',
  'providers/signature.ts',
  'binding/hand.ts',
  'binding/node-listener.ts',
  'binding/peer-version.ts',
];

/** Packages that a user may install, loaded where they are first needed. */
const MAY_LOAD = { 'bot/schedule/times.ts': ['croner'] };

const ON_THE_CLOCK = ['binding/', 'bot/', 'coordination/', 'pipeline/', 'state/', 'testing/', 'time/'];
const MAY_READ_TIME = ['time/clock.ts', 'coordination/replica-id.ts'];
const TIMERS = new Set(['setTimeout', 'setInterval']);
const CHANCE_AND_TIME = new Set([
  'Date.now',
  'performance.now',
  'Math.random',
  'crypto.randomUUID',
  'crypto.getRandomValues',
  'AbortSignal.timeout',
  'globalThis.setTimeout',
  'globalThis.setInterval',
]);

/** A package's `testing/` folder is for its tests alone, and is not published. */
const isTest = (file) => file.endsWith('.test.ts') || /^packages\/[^/]+\/testing\//.test(file);
const startsWithAny = (path, prefixes) => prefixes.some((prefix) => path.startsWith(prefix));

/**
 * Every broken rule in `files`, a map from path (relative to the root, with `/`) to text. Package manifests are
 * needed only for packages other than core. Does not report a file that does not exist: the compiler does.
 */
export function checkImports(files) {
  const problems = [];
  const graph = new Map();
  for (const [file, text] of files) {
    if (!file.endsWith('.ts')) continue;
    const { imports, clocks, errors } = parse(file, text);
    for (const error of errors) problems.push({ file, line: 1, message: `does not parse: ${error}` });
    graph.set(file, []);
    for (const found of imports) {
      const target = resolve(file, found.specifier);
      if (target !== undefined && files.has(target)) graph.get(file).push({ target, line: found.line });
      const message = file.startsWith(CORE)
        ? checkCore(file, found.specifier, target)
        : checkWorkspace(file, found.specifier, target, files);
      if (message !== undefined) problems.push({ file, line: found.line, message });
    }
    for (const found of checkClock(file, clocks)) problems.push({ file, ...found });
  }
  problems.push(...findCycles(graph));
  return problems.sort((a, b) => a.file.localeCompare(b.file) || a.line - b.line);
}

function parse(file, text) {
  const { program, errors } = parseSync(file, text);
  const lineOf = (offset) => text.slice(0, offset).split('\n').length;
  const imports = [];
  const clocks = [];
  const add = (source) => {
    if (source?.type === 'Literal') imports.push({ specifier: source.value, line: lineOf(source.start) });
  };
  new Visitor({
    ImportDeclaration: (node) => add(node.source),
    ExportNamedDeclaration: (node) => add(node.source),
    ExportAllDeclaration: (node) => add(node.source),
    ImportExpression: (node) => add(node.source),
    TSImportType: (node) => add(node.source ?? node.argument),
    CallExpression: ({ callee }) => {
      if (callee.type === 'Identifier' && TIMERS.has(callee.name)) {
        clocks.push({ name: callee.name, line: lineOf(callee.start) });
      }
    },
    NewExpression: ({ callee, arguments: args, start }) => {
      if (callee.type === 'Identifier' && callee.name === 'Date' && args.length === 0) {
        clocks.push({ name: 'new Date()', line: lineOf(start) });
      }
    },
    MemberExpression: ({ object, property, computed, start }) => {
      const owner = object.type === 'MemberExpression' ? object.property.name : object.name;
      const name = computed ? property.value : property.name;
      if (CHANCE_AND_TIME.has(`${owner}.${name}`)) clocks.push({ name: `${owner}.${name}`, line: lineOf(start) });
    },
  }).visit(program);
  return { imports, clocks, errors: errors.map((error) => error.message) };
}

function resolve(file, specifier) {
  if (!specifier.startsWith('.')) return undefined;
  return posix.join(posix.dirname(file), specifier).replace(/\.js$/, '.ts');
}

function checkCore(file, specifier, target) {
  const from = file.slice(CORE.length);
  if (isTest(from)) return undefined;
  if (specifier.startsWith('node:')) {
    if (MAY_USE_NODE.includes(from)) return undefined;
    return `imports ${specifier}. Core runs on any platform; only ${MAY_USE_NODE.join(', ')} may use node:*`;
  }
  if (MAY_LOAD[from]?.includes(specifier)) return undefined;
  if (target === undefined) return `imports ${specifier}. Core has no dependencies: write it here or do without`;
  if (!target.startsWith(CORE)) return `imports ${specifier}, outside packages/core/src. Move what is shared into src`;
  const to = target.slice(CORE.length);
  const area = areaOf(from);
  if (area === undefined) {
    return `is in no known folder of core. Move it, or add its folder to MAY_IMPORT in scripts/check-imports.mjs`;
  }
  const ownFolder = area.endsWith('/') ? [area] : [];
  const allowed = [...ownFolder, ...MAY_IMPORT[area]];
  if (startsWithAny(to, allowed)) return undefined;
  if (startsWithAny(to, ['testing.ts', 'testing/'])) {
    return `imports ${to}. Only testing.ts, testing/ and tests import testing/: move what is shared out of it`;
  }
  return `${area} imports ${to}. It may import ${allowed.join(', ') || 'nothing'}: move what is shared to one of these`;
}

function areaOf(from) {
  const names = Object.keys(MAY_IMPORT).filter((name) => (name.endsWith('/') ? from.startsWith(name) : from === name));
  return names.sort((a, b) => b.length - a.length)[0];
}

function checkWorkspace(file, specifier, target, files) {
  const root = /^(?:packages|examples)\/[^/]+\/|^[^/]+\//.exec(file)[0];
  if (target !== undefined) {
    // What plays a platform for the tests of one package does so for those of several.
    const isShared = root === 'tests/' && /^packages\/[^/]+\/testing\//.test(target);
    return isShared || target.startsWith(root)
      ? undefined
      : `imports ${specifier}, outside ${root}. Import the package by its name`;
  }
  if (specifier.startsWith('node:')) return undefined;
  const name = specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
  const entry = specifier.slice(name.length);
  const isTestCode = isTest(file) || ['tests/', 'bench/', LAB].includes(root);
  if (name === '@botmesh/lab' && !isTestCode) return `imports ${specifier}. Only tests and benches import the lab`;
  if (name.startsWith('@botmesh/') && entry !== '') {
    if (entry === '/testing' && !isTestCode) return `imports ${specifier}. Only tests import testing`;
    if (!['/spi', '/testing'].includes(entry)) {
      return `imports ${specifier}. Use ${name}, ${name}/spi or, in a test, ${name}/testing`;
    }
  }
  return root.startsWith('packages/') ? checkDeclared(file, root, name, files) : undefined;
}

function checkDeclared(file, root, name, files) {
  const manifest = JSON.parse(files.get(`${root}package.json`) ?? '{}');
  if (isTest(file)) return undefined;
  const declared = { ...manifest.dependencies, ...manifest.peerDependencies };
  if (name in declared || name === manifest.name) return undefined;
  return `imports ${name}. Name it in dependencies or peerDependencies of ${root}package.json`;
}

function checkClock(file, clocks) {
  if (!file.startsWith(CORE) || isTest(file)) return [];
  const from = file.slice(CORE.length);
  if (!startsWithAny(from, ON_THE_CLOCK) || MAY_READ_TIME.includes(from)) return [];
  return clocks.map(({ name, line }) => ({
    line,
    message: `uses ${name}. Take time, timers and chance from the Clock passed in (time/clock.ts), so that a simulation can turn it`,
  }));
}

/** One problem for each import that closes a circle, found by depth-first search. Imports of types count. */
function findCycles(graph) {
  const problems = [];
  const done = new Set();
  const path = [];
  const visit = (file) => {
    path.push(file);
    for (const { target, line } of graph.get(file) ?? []) {
      const at = path.indexOf(target);
      if (at !== -1) {
        const circle = [...path.slice(at), target].map((name) => posix.basename(name)).join(' → ');
        problems.push({ file, line, message: `closes a circle: ${circle}. Move what both need to a third file` });
      } else if (!done.has(target)) {
        visit(target);
      }
    }
    path.pop();
    done.add(file);
  };
  for (const file of graph.keys()) if (!done.has(file)) visit(file);
  return problems;
}

function readTree(root) {
  const files = new Map();
  const walk = (folder) => {
    for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
      if (['node_modules', 'dist', 'coverage'].includes(entry.name)) continue;
      const path = posix.join(folder, entry.name);
      if (entry.isDirectory()) walk(path);
      else if (/\.ts$|^package\.json$/.test(entry.name)) files.set(path, readFileSync(join(root, path), 'utf8'));
    }
  };
  for (const entry of readdirSync(root, { withFileTypes: true })) {
    if (entry.isDirectory() && ['packages', 'tests', 'examples', 'bench'].includes(entry.name)) walk(entry.name);
  }
  return files;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const files = readTree(dirname(dirname(fileURLToPath(import.meta.url))));
  const problems = checkImports(files);
  for (const { file, line, message } of problems) console.error(`${file}:${line} ${message}`);
  const count = [...files.keys()].filter((file) => file.endsWith('.ts')).length;
  console.log(`${count} files, ${problems.length} broken import rules`);
  process.exitCode = problems.length > 0 ? 1 : 0;
}
