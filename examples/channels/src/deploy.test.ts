// What examples/deploy says of the program, held against the program.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { settingsOf } from './settings.js';

// Changesets brings it along.
const yaml = createRequire(import.meta.url)('js-yaml') as {
  load(text: string): unknown;
  loadAll(text: string): unknown[];
};

const folder = fileURLToPath(new URL('../../deploy/', import.meta.url));
const read = (name: string): string => readFileSync(`${folder}${name}`, 'utf8');

interface Env {
  readonly name: string;
  readonly value: string;
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string | number };
}
interface Container {
  readonly image: string;
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly env: readonly Env[];
  readonly envFrom: readonly { readonly secretRef: { readonly name: string } }[];
  readonly startupProbe: Probe;
  readonly readinessProbe: Probe;
  readonly livenessProbe: Probe;
  readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
}
interface Labels {
  readonly matchLabels: Readonly<Record<string, string>>;
}
interface Deployment {
  readonly spec: {
    readonly replicas: number;
    readonly selector: Labels;
    readonly strategy: { readonly rollingUpdate: { readonly maxUnavailable: number } };
    readonly template: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: { readonly terminationGracePeriodSeconds: number; readonly containers: readonly Container[] };
    };
  };
}
interface Service {
  readonly spec: {
    readonly selector: Readonly<Record<string, string>>;
    readonly ports: readonly { readonly port: number; readonly targetPort: string | number }[];
  };
}
interface Budget {
  readonly spec: { readonly minAvailable: number; readonly selector: Labels };
}

function manifest<Kind>(file: string, kind: string): Kind {
  const found = yaml.loadAll(read(file)).find((each) => (each as { kind: string }).kind === kind);
  if (found === undefined) throw new Error(`${file} has no ${kind}.`);
  return found as Kind;
}

const seconds = (text: string): number => Number(/^(\d+)s$/.exec(text)?.[1]);

describe('kubernetes/bot.yaml', () => {
  const { spec } = manifest<Deployment>('kubernetes/bot.yaml', 'Deployment');
  const pod = spec.template.spec;
  const [container] = pod.containers;
  const { port, drainMs } = settingsOf(Object.fromEntries(container!.env.map(({ name, value }) => [name, value])));
  const portOf = (named: string | number): number =>
    container!.ports.find(({ name }) => name === named)?.containerPort ?? Number(named);

  test('runs three replicas, and probes them on the port that the program listens on', () => {
    expect(spec.replicas).toBe(3);
    expect(container!.ports.map(({ containerPort }) => containerPort)).toEqual([port]);
    const probes = [container!.readinessProbe, container!.livenessProbe, container!.startupProbe];
    expect(probes.map(({ httpGet }) => httpGet.path)).toEqual(['/readyz', '/livez', '/livez']);
    expect(probes.map(({ httpGet }) => portOf(httpGet.port))).toEqual([port, port, port]);
  });

  test('leaves the time that preStop and the drain take, and some to spare', () => {
    const [program, pauseS] = container!.lifecycle.preStop.exec.command;
    expect(program).toBe('sleep');
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(Number(pauseS) + drainMs / 1_000 + 10);
  });

  test('hands calls to its pods, and keeps enough of them at any time', () => {
    const { labels } = spec.template.metadata;
    const service = manifest<Service>('kubernetes/bot.yaml', 'Service').spec;
    const budget = manifest<Budget>('kubernetes/bot.yaml', 'PodDisruptionBudget').spec;
    expect([spec.selector.matchLabels, service.selector, budget.selector.matchLabels]).toEqual([
      labels,
      labels,
      labels,
    ]);
    expect(service.ports.map(({ targetPort }) => portOf(targetPort))).toEqual([port]);
    expect(budget.minAvailable).toBeGreaterThan(0);
    expect(budget.minAvailable).toBeLessThan(spec.replicas);
    expect(spec.strategy.rollingUpdate.maxUnavailable).toBe(0);
  });

  test('the Secret that it names is the one that the README makes', () => {
    const [{ secretRef } = { secretRef: { name: '' } }] = container!.envFrom;
    expect(read('README.md')).toContain(`create secret generic ${secretRef.name} `);
  });
});

interface ComposeService {
  readonly environment?: Readonly<Record<string, string>>;
  readonly deploy?: { readonly replicas: number };
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly depends_on?: Readonly<Record<string, unknown>>;
  readonly command?: readonly string[];
  readonly build?: { readonly context: string; readonly dockerfile: string };
}

describe('compose.yaml', () => {
  const compose = (name: string) => yaml.load(read(name)) as { services: Record<string, ComposeService> };
  const { services } = compose('compose.yaml');
  const bot = services.bot!;
  const { port, drainMs, redisUrl } = settingsOf(bot.environment!);

  test('runs three replicas, whose health is /readyz on the port that the program listens on', () => {
    expect(bot.deploy?.replicas).toBe(3);
    expect(bot.healthcheck?.test.join(' ')).toContain(`http://127.0.0.1:${port}/readyz`);
    expect(read('compose.yaml')).toContain(`dynamic a bot ${port}`);
    expect(existsSync(`${folder}${bot.build!.context}/${bot.build!.dockerfile}`)).toBe(true);
  });

  test('leaves the time that the drain takes, and some to spare', () => {
    expect(seconds(bot.stop_grace_period!)).toBeGreaterThanOrEqual(drainMs / 1_000 + 5);
  });

  test('has the backend that it names, and with the second file the other one', () => {
    expect(new URL(redisUrl!).hostname in services).toBe(true);
    const second = compose('compose.postgres.yaml').services;
    const merged = settingsOf({ ...bot.environment, ...second.bot!.environment });
    expect(merged.redisUrl).toBe('');
    expect(new URL(merged.databaseUrl!).hostname in second).toBe(true);
  });
});

test('each Redis keeps what it has, and throws nothing out', () => {
  const { services } = yaml.load(read('compose.yaml')) as { services: Record<string, ComposeService> };
  const set = manifest<{ spec: { template: { spec: { containers: { args: string[] }[] } } } }>(
    'kubernetes/redis.yaml',
    'StatefulSet',
  );
  for (const args of [services.redis!.command!, set.spec.template.spec.containers[0]!.args]) {
    expect(args.join(' ')).toContain('--appendonly yes');
    expect(args.join(' ')).toContain('--maxmemory-policy noeviction');
  }
});

test('the PostgreSQL of Kubernetes is where the README says, under the names that it gives', () => {
  interface Backend {
    readonly spec: {
      readonly serviceName: string;
      readonly template: { readonly spec: { readonly containers: readonly Container[] } };
    };
  }
  const { spec } = manifest<Backend>('kubernetes/postgres.yaml', 'StatefulSet');
  const service = manifest<Service & { metadata: { name: string } }>('kubernetes/postgres.yaml', 'Service');
  const [{ env, envFrom }] = spec.template.spec.containers as [Container];
  const set = Object.fromEntries(env.map(({ name, value }) => [name, value]));
  const { hostname, port, username, pathname } = new URL(/DATABASE_URL=(\S+?)"/.exec(read('README.md'))![1]!);

  expect([hostname, Number(port)]).toEqual([service.metadata.name, service.spec.ports[0]!.port]);
  expect([username, pathname]).toEqual([set.POSTGRES_USER, `/${set.POSTGRES_DB}`]);
  expect(read('README.md')).toContain(`secret generic ${envFrom[0]!.secretRef.name} --from-literal=POSTGRES_PASSWORD=`);
});

test('only names of the environment are set that the program reads, and every file can be parsed', () => {
  const program = ['settings.ts', 'main.ts'].map((file) => readFileSync(new URL(file, import.meta.url), 'utf8')).join();
  const names = read('bot.env.example').match(/^[A-Z_]+(?==)/gm) ?? [];
  const set = [...names, 'PORT', 'DRAIN_MS', 'REDIS_URL', 'DATABASE_URL'];
  expect(set.filter((name) => !program.includes(name))).toEqual([]);
  for (const file of readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.yaml'))) {
    expect(yaml.loadAll(read(file)).length, file).toBeGreaterThan(0);
  }
});

test('the image starts the program that is built', () => {
  const path = /CMD \["node", "([^"]+)"\]/.exec(read('Dockerfile'))?.[1];
  expect(existsSync(fileURLToPath(new URL(`../../../${path}`, import.meta.url)))).toBe(true);
});
