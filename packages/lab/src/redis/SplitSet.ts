import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Child } from '../child.js';
import { Hosts } from '../Hosts.js';
import { PLACE } from '../place.js';
import { isProgram } from '../programs.js';
import { until } from '../until.js';
import type { Program } from './programs.js';

const PORT = 6379;
const SENTINEL_PORT = 26_379;
const SERVERS = 3;

export interface SplitSetOptions {
  readonly program: Program;
  readonly downAfterMs: number;
  /** More lines of each server's configuration. */
  readonly config?: readonly string[];
}

/**
 * Three servers with a Sentinel each on hosts 1 to 3, and room for replicas of the bot on hosts 4 and 5. The primary is on
 * host 1. A split cuts it from the other servers, and not from host 4.
 */
export class SplitSet implements AsyncDisposable {
  static readonly group = 'lab';
  readonly hosts = new Hosts(5);
  readonly #options: SplitSetOptions;
  readonly #folder = mkdtempSync(join(PLACE, 'botmesh-split-'));
  readonly #children: Child[] = [];

  private constructor(options: SplitSetOptions) {
    this.#options = options;
  }

  static async start(options: SplitSetOptions): Promise<SplitSet> {
    const set = new SplitSet(options);
    try {
      for (const host of [1, 2, 3]) await set.#startServer(host);
      await until('both replicas follow', () => set.#primaryHas(2));
      for (const host of [1, 2, 3]) await set.#startSentinel(host);
      await until('all Sentinels know each other', () => set.#allAreKnown(), 40_000);
      return set;
    } catch (error) {
      await set[Symbol.asyncDispose]();
      throw error;
    }
  }

  get sentinels(): { host: string; port: number }[] {
    return [1, 2, 3].map((host) => ({ host: this.hosts.address(host), port: SENTINEL_PORT }));
  }

  /** Where a replica of the bot finds its servers: on a host that sees only some Sentinels, it asks those. */
  sentinelsOf(hosts: readonly number[]): { host: string; port: number }[] {
    return hosts.map((host) => ({ host: this.hosts.address(host), port: SENTINEL_PORT }));
  }

  /** Host 1 is alone with host 4; host 5 is with the others. */
  split(): void {
    for (const [one, other] of SPLIT) this.hosts.cut(one, other);
  }

  heal(): void {
    for (const [one, other] of SPLIT) this.hosts.heal(one, other);
  }

  async failedOver(limitMs = 30_000): Promise<void> {
    await until('another primary is named', () => !this.#primaryOf(2).includes(this.hosts.address(1)), limitMs);
  }

  async oldFollows(limitMs = 60_000): Promise<void> {
    await until(
      'the old primary follows',
      () => this.#ask(1, PORT, 'info', 'replication').includes('role:slave'),
      limitMs,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#children.map((child) => child.end('SIGKILL')));
    this.hosts[Symbol.dispose]();
    rmSync(this.#folder, { recursive: true, force: true });
  }

  async #startServer(host: number): Promise<void> {
    const { config = [], program } = this.#options;
    const lines = [
      `port ${PORT}`,
      `bind ${this.hosts.address(host)}`,
      'protected-mode no',
      'save ""',
      'repl-diskless-sync-delay 0',
      'repl-timeout 5',
      ...(host === 1 ? [] : [`replicaof ${this.hosts.address(1)} ${PORT}`]),
      ...config,
    ];
    await this.#start(host, 'server', lines, [program.path], /eady to accept connections/);
  }

  async #startSentinel(host: number): Promise<void> {
    const { downAfterMs, program } = this.#options;
    const lines = [
      `port ${SENTINEL_PORT}`,
      `bind ${this.hosts.address(host)}`,
      'protected-mode no',
      `sentinel monitor ${SplitSet.group} ${this.hosts.address(1)} ${PORT} 2`,
      `sentinel down-after-milliseconds ${SplitSet.group} ${downAfterMs}`,
      `sentinel failover-timeout ${SplitSet.group} 3000`,
    ];
    await this.#start(host, 'sentinel', lines, [program.path], /\+monitor/);
  }

  async #start(host: number, what: string, lines: readonly string[], program: string[], ready: RegExp): Promise<void> {
    const folder = join(this.#folder, `${what}${host}`);
    mkdirSync(folder);
    const file = join(folder, 'conf');
    writeFileSync(file, `${[`dir ${folder}`, ...lines].join('\n')}\n`);
    const command = [...this.hosts.on(host), ...program, file, ...(what === 'sentinel' ? ['--sentinel'] : [])];
    this.#children.push(await Child.start({ command, cwd: folder, ready }));
  }

  async #primaryHas(replicas: number): Promise<boolean> {
    return this.#ask(1, PORT, 'info', 'replication').includes(`connected_slaves:${replicas}`);
  }

  #allAreKnown(): boolean {
    return [1, 2, 3].every((host) => {
      const lines = this.#ask(host, SENTINEL_PORT, 'sentinel', 'master', SplitSet.group).split('\n');
      const of = (name: string) => lines[lines.indexOf(name) + 1];
      return of('num-slaves') === String(SERVERS - 1) && of('num-other-sentinels') === String(SERVERS - 1);
    });
  }

  #primaryOf(sentinel: number): string {
    return this.#ask(sentinel, SENTINEL_PORT, 'sentinel', 'get-master-addr-by-name', SplitSet.group);
  }

  #ask(host: number, port: number, ...command: readonly string[]): string {
    const { family, path } = this.#options.program;
    const beside = join(dirname(path), `${family}-cli`);
    const cli = isProgram(beside) ? beside : `${family}-cli`;
    return this.hosts.run(host, cli, '-h', this.hosts.address(host), '-p', String(port), ...command);
  }
}

const SPLIT = [
  [1, 2],
  [1, 3],
  [1, 5],
  [4, 2],
  [4, 3],
  [4, 5],
] as const;
