// The files of examples/deploy, run without Docker and without Kubernetes: the commands, environments, probes, hooks and times that
// stand in them, as processes of this host behind a balancer, while people write.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { FakeSlack } from '@botmesh/slack/testing';
import { describe, expect, test } from 'vitest';
import { Balancer } from '../cluster/Balancer.js';
import { type Backend, postgres, redis } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';

// Changesets brings it along.
const yaml = createRequire(import.meta.url)('js-yaml') as {
  load(text: string): unknown;
  loadAll(text: string): unknown[];
};

const root = fileURLToPath(new URL('../../', import.meta.url));
const read = (name: string): string => readFileSync(`${root}examples/deploy/${name}`, 'utf8');
/** Until those who hand calls on have heard that a process goes. */
const HEARD_MS = 1_500;
const PATIENCE_MS = 30_000;
const CHANNELS = ['D1', 'D2', 'D3', 'D4'];

type Environment = Readonly<Record<string, string>>;

/** What the image runs, by its Dockerfile. */
const COMMAND = JSON.parse(/^CMD (\[.+\])$/m.exec(read('Dockerfile'))?.[1] ?? '[]') as string[];

async function until(what: string, holds: () => boolean | Promise<boolean>, why = () => ''): Promise<void> {
  for (const untilMs = Date.now() + PATIENCE_MS; !(await holds()); await pause(50)) {
    if (Date.now() > untilMs) throw new Error(`After ${PATIENCE_MS} ms not so: ${what}. ${why()}`);
  }
}

/** One container: the command of the image in its environment, but for the port, which each has of its own here. */
class Container {
  readonly child: ChildProcess;
  /** With its exit code, or the signal. */
  readonly gone: Promise<unknown>;
  #told = '';

  constructor(env: Environment) {
    const { PATH = '' } = process.env;
    const [program, ...args] = COMMAND;
    const own = { PATH, NODE_NO_WARNINGS: '1', ...env, PORT: '0' };
    this.child = spawn(program!, args, { cwd: root, env: own, timeout: 100_000, killSignal: 'SIGKILL' });
    this.gone = once(this.child, 'exit').then(([code, signal]: unknown[]) => code ?? signal);
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#told += text;
      });
    }
  }

  get told(): string {
    return this.#told;
  }

  get port(): number | undefined {
    const port = /listening on (\d+)/.exec(this.#told)?.[1];
    return port === undefined ? undefined : Number(port);
  }

  async answers(path: string): Promise<boolean> {
    if (this.port === undefined) return false;
    return fetch(`http://127.0.0.1:${this.port}${path}`).then(
      ({ ok }) => ok,
      () => false,
    );
  }
}

/** A Slack, a backend, a balancer, and the containers that it hands calls to. */
class Site implements AsyncDisposable {
  readonly fake: FakeSlack;
  readonly balancer: Balancer;
  readonly ready = new Set<Container>();
  readonly all: Container[] = [];
  readonly #env: Environment;
  readonly #close: () => Promise<void>;

  private constructor(fake: FakeSlack, balancer: Balancer, env: Environment, close: () => Promise<void>) {
    this.fake = fake;
    this.balancer = balancer;
    this.#env = env;
    this.#close = close;
    balancer.targets = () => [...this.ready].flatMap(({ port }) => port ?? []);
  }

  /** `own`: what the file sets; the rest is what `bot.env` is to say. */
  static async open(backend: Backend, own: Environment): Promise<Site> {
    const [opened, balancer] = await Promise.all([backend.open(), Balancer.start(PATIENCE_MS)]);
    const { reach } = opened;
    const retryMs = Array<number>(200).fill(50);
    const fake = await FakeSlack.start({ eventsUrl: `${balancer.url}slack`, retryMs, ackMs: PATIENCE_MS });
    const url = (reach as { url: string }).url;
    const secrets = {
      CHANNEL: 'slack',
      SLACK_BOT_TOKEN: 'xoxb-fake',
      SLACK_SIGNING_SECRET: fake.signingSecret,
      SLACK_API_URL: fake.apiUrl,
      REDIS_URL: reach.kind === 'redis' ? url : '',
      DATABASE_URL: reach.kind === 'postgres' ? url : '',
    };
    return new Site(fake, balancer, { ...own, ...secrets }, () => opened.close());
  }

  launch(): Container {
    const container = new Container(this.#env);
    this.all.push(container);
    return container;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.all) child.kill('SIGKILL');
    await Promise.all(this.all.map(({ gone }) => gone));
    await this.fake.close();
    await this.balancer.stop();
    await this.#close();
  }
}

/** People who order, each chat one after the other, while `act` runs. Resolves with how often each call had to be made. */
async function ordering({ fake, all }: Site, act: () => Promise<void>): Promise<number[]> {
  let isOver = false;
  const attempts: number[] = [];
  const counts = new Map<string, number>();
  const writing = Promise.all(
    CHANNELS.map(async (channel) => {
      for (let count = 1; !isOver; count++) {
        const { isAcknowledged, attempts: tries } = await fake.say({ channel, text: 'large' }).delivered;
        expect(isAcknowledged).toBe(true);
        attempts.push(tries);
        counts.set(channel, count);
        await pause(60);
      }
    }),
  );
  try {
    await act();
  } finally {
    isOver = true;
    await writing;
  }
  const wanted = (channel: string): string[] =>
    Array.from({ length: counts.get(channel)! }, (_, n) => `Large it is. Orders: ${n + 1}.`);
  await until(
    'each order is answered',
    () => CHANNELS.every((channel) => fake.posted(channel).length >= counts.get(channel)!),
    () => all.map(({ told }) => told).join('\n'),
  );
  for (const channel of CHANNELS) expect(fake.posted(channel), channel).toEqual(wanted(channel));
  return attempts;
}

interface Probe {
  readonly httpGet: { readonly path: string };
}
interface Pod {
  readonly terminationGracePeriodSeconds: number;
  readonly containers: readonly {
    readonly env: readonly { readonly name: string; readonly value: string }[];
    readonly startupProbe: Probe;
    readonly readinessProbe: Probe;
    readonly livenessProbe: Probe;
    readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  }[];
}

describe.concurrent('what examples/deploy says', () => {
  test('on Kubernetes: three pods are replaced one after the other, every call is taken in at once, and no order is lost or doubled', {
    timeout: 120_000,
  }, async () => {
    const [deployment] = yaml.loadAll(read('kubernetes/bot.yaml')) as [
      { spec: { replicas: number; template: { spec: Pod } } },
    ];
    const { replicas, template } = deployment.spec;
    const [container] = template.spec.containers;
    const { env, startupProbe, readinessProbe, livenessProbe, lifecycle } = container!;
    const [hook, ...args] = lifecycle.preStop.exec.command;
    const graceMs = template.spec.terminationGracePeriodSeconds * 1_000;
    await using site = await Site.open(redis, Object.fromEntries(env.map(({ name, value }) => [name, value])));
    const start = async (): Promise<void> => {
      const pod = site.launch();
      const told = (): string => pod.told;
      await until('it lives', () => pod.answers(startupProbe.httpGet.path), told);
      await until('it is ready', () => pod.answers(readinessProbe.httpGet.path), told);
      site.ready.add(pod);
    };
    /** As a kubelet does it, while the Service hears of it. */
    const end = async (pod: Container): Promise<unknown> => {
      const sinceMs = Date.now();
      void pause(HEARD_MS).then(() => site.ready.delete(pod));
      await once(spawn(hook!, args, { stdio: 'ignore' }), 'exit');
      expect(await pod.answers(livenessProbe.httpGet.path)).toBe(true);
      pod.child.kill('SIGTERM');
      const how = await pod.gone;
      expect(Date.now() - sinceMs).toBeLessThan(graceMs);
      return how;
    };
    await Promise.all(Array.from({ length: replicas }, start));

    const attempts = await ordering(site, async () => {
      for (const old of [...site.ready]) {
        await start();
        expect(await end(old)).toBe(0);
      }
    });

    expect(attempts.every((tries) => tries === 1)).toBe(true);
    expect(attempts.length).toBeGreaterThan(100);
  });

  test('with Docker Compose and PostgreSQL: three containers are stopped and begun anew, one after the other, and no order is lost or doubled', {
    timeout: 120_000,
  }, async () => {
    type Compose = {
      services: {
        bot: {
          environment: Environment;
          deploy: { replicas: number };
          healthcheck: { test: [string, ...string[]] };
          stop_grace_period: string;
        };
      };
    };
    const { bot } = (yaml.load(read('compose.yaml')) as Compose).services;
    const second = (yaml.load(read('compose.postgres.yaml')) as Compose).services.bot;
    const graceMs = Number.parseInt(bot.stop_grace_period, 10) * 1_000;
    await using site = await Site.open(postgres, { ...bot.environment, ...second.environment });
    const isHealthy = async ({ port }: Container): Promise<boolean> => {
      if (port === undefined) return false;
      const [, program, ...args] = bot.healthcheck.test.map((word) =>
        word.replace(bot.environment.PORT!, String(port)),
      );
      const [code] = (await once(spawn(program!, args, { stdio: 'ignore' }), 'exit')) as [number];
      return code === 0;
    };
    const start = async (): Promise<void> => {
      const container = site.launch();
      await until(
        'it listens',
        () => container.port !== undefined,
        () => container.told,
      );
      // The proxy asks nobody whether they are ready.
      site.ready.add(container);
      await until(
        'it is healthy',
        () => isHealthy(container),
        () => container.told,
      );
    };
    await Promise.all(Array.from({ length: bot.deploy.replicas }, start));

    await ordering(site, async () => {
      for (const old of [...site.ready]) {
        const sinceMs = Date.now();
        old.child.kill('SIGTERM');
        expect(await old.gone).toBe(0);
        expect(Date.now() - sinceMs).toBeLessThan(graceMs);
        site.ready.delete(old);
        await start();
      }
    });
  });
});
