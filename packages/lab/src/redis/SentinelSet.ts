import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Child } from '../child.js';
import { PLACE } from '../place.js';
import { freePort } from '../ports.js';
import { until } from '../until.js';
import { anyProgram, type Program } from './programs.js';
import { RedisServer } from './RedisServer.js';

export interface SentinelSetOptions {
  program?: Program;
  /** After how long without an answer a Sentinel counts a server as down. Default 1000. */
  downAfterMs?: number;
  /** More lines of each server's configuration, such as `min-replicas-to-write 1`. */
  config?: readonly string[];
}

export const SENTINEL_GROUP = 'lab';

/** A primary with two replicas, watched by three Sentinels, all on loopback. */
export class SentinelSet implements AsyncDisposable {
  readonly servers: RedisServer[] = [];
  readonly #program: Program;
  readonly #downAfterMs: number;
  readonly #folder: string;
  readonly #sentinels: { readonly port: number; readonly child: Child; readonly admin: Redis }[] = [];

  private constructor(options: SentinelSetOptions) {
    this.#program = options.program ?? anyProgram();
    this.#downAfterMs = options.downAfterMs ?? 1000;
    this.#folder = mkdtempSync(join(PLACE, 'botmesh-sentinel-'));
  }

  static async start(options: SentinelSetOptions = {}): Promise<SentinelSet> {
    const set = new SentinelSet(options);
    try {
      await set.#startServers(options.config ?? []);
      await Promise.all([0, 1, 2].map((n) => set.#startSentinel(n)));
      // They look for each other every few seconds only, and none can win a vote before that.
      await until('all Sentinels know each other and both replicas', () => set.#allAreKnown(), 40_000);
      return set;
    } catch (error) {
      await set[Symbol.asyncDispose]();
      throw error;
    }
  }

  get sentinels(): { host: string; port: number }[] {
    return this.#sentinels.map(({ port }) => ({ host: '127.0.0.1', port }));
  }

  /** The server that the Sentinels name. */
  async primary(): Promise<RedisServer> {
    const [, port] = (await this.#sentinels[0]!.admin.call(
      'SENTINEL',
      'GET-MASTER-ADDR-BY-NAME',
      SENTINEL_GROUP,
    )) as string[];
    const server = this.servers.find((one) => String(one.port) === port);
    if (server === undefined) throw new Error(`The Sentinels name port ${port}, which is none of ours.`);
    return server;
  }

  /** Resolves with the new primary once all Sentinels name another one than `old`. */
  async failedOver(old: RedisServer, limitMs = 30_000): Promise<RedisServer> {
    await until(
      'another primary is named, and is one',
      async () => (await this.#newPrimary(old)) !== undefined,
      limitMs,
    );
    return (await this.#newPrimary(old))!;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { admin } of this.#sentinels) admin.disconnect();
    await Promise.all(this.#sentinels.map(({ child }) => child.end('SIGKILL')));
    await Promise.all(this.servers.map((server) => server[Symbol.asyncDispose]()));
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #newPrimary(old: RedisServer): Promise<RedisServer | undefined> {
    const named = await this.primary();
    if (named === old) return undefined;
    return /role:master/.test(String(await named.ask('INFO', 'replication'))) ? named : undefined;
  }

  async #startServers(config: readonly string[]): Promise<void> {
    const program = this.#program;
    const common = ['repl-diskless-sync-delay 0', 'repl-timeout 5', ...config];
    const primary = await RedisServer.start({ program, config: common });
    this.servers.push(primary);
    const follow = [...common, `replicaof 127.0.0.1 ${primary.port}`];
    this.servers.push(...(await Promise.all([1, 2].map(() => RedisServer.start({ program, config: follow })))));
    // A Sentinel asks when it starts, and then only every ten seconds.
    await until('both replicas follow', async () => {
      return /connected_slaves:2/.test(String(await primary.ask('INFO', 'replication')));
    });
  }

  async #startSentinel(n: number): Promise<void> {
    const port = await freePort();
    const folder = join(this.#folder, String(n));
    mkdirSync(folder);
    const file = join(folder, 'sentinel.conf');
    const lines = [
      `port ${port}`,
      'bind 127.0.0.1',
      `dir ${folder}`,
      `sentinel monitor ${SENTINEL_GROUP} 127.0.0.1 ${this.servers[0]!.port} 2`,
      `sentinel down-after-milliseconds ${SENTINEL_GROUP} ${this.#downAfterMs}`,
      `sentinel failover-timeout ${SENTINEL_GROUP} 3000`,
    ];
    writeFileSync(file, `${lines.join('\n')}\n`);
    const child = await Child.start({
      command: [this.#program.path, file, '--sentinel'],
      cwd: folder,
      ready: /\+monitor/,
    });
    const admin = new Redis(port, '127.0.0.1', { enableReadyCheck: false, retryStrategy: () => 50 });
    admin.on('error', () => {});
    this.#sentinels.push({ port, child, admin });
  }

  async #allAreKnown(): Promise<boolean> {
    const known = this.#sentinels.map(async ({ admin }) => {
      const flat = (await admin.call('SENTINEL', 'MASTER', SENTINEL_GROUP)) as string[];
      const of = (name: string) => flat[flat.indexOf(name) + 1];
      return of('num-slaves') === '2' && of('num-other-sentinels') === '2';
    });
    return (await Promise.all(known)).every((isKnown) => isKnown);
  }
}
