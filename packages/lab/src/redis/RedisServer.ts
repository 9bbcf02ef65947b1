import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Child } from '../child.js';
import { MovingClock } from '../moving-clock.js';
import { PLACE } from '../place.js';
import { freePort } from '../ports.js';
import { type Certificates, makeCertificates, tlsConfig } from './certificates.js';
import { anyProgram, type Program } from './programs.js';

export interface RedisServerOptions {
  program?: Program;
  /** `none` forgets all at a restart; `aof` writes every command to the disk before it answers. Default `none`. */
  persistence?: 'none' | 'aof';
  /** More lines of the configuration, such as `maxmemory-policy allkeys-lru`. */
  config?: readonly string[];
  /** Such lines where they depend on the port. */
  configFor?: (port: number) => readonly string[];
  /** Lines of an ACL file, such as `user bot on >secret ~* &* +@all`. The `default` user stays as it is unless named. */
  users?: readonly string[];
  /** Speaks TLS only. */
  tls?: boolean;
  /** Lets the test move its wall clock. */
  clock?: boolean;
}

/** Data as it was at some moment, to be put back later. */
export interface SavedData {
  readonly path: string;
}

const HOST = '127.0.0.1';
/**
 * A Redis or Valkey server of one test, on a free loopback port, in a folder that goes with it. Keeps its port over
 * restarts. Use it with `await using`.
 */
export class RedisServer implements AsyncDisposable {
  readonly port: number;
  readonly program: Program;
  readonly certificates: Certificates | undefined;
  /** Where it can be moved: see `RedisServerOptions.clock`. */
  readonly clock: MovingClock | undefined;
  readonly folder: string;
  readonly #options: RedisServerOptions;
  #child: Child | undefined;
  #copies = 0;
  #admin: Redis | undefined;

  private constructor(port: number, options: RedisServerOptions) {
    this.#options = options;
    this.port = port;
    this.program = options.program ?? anyProgram();
    this.folder = mkdtempSync(join(PLACE, 'botmesh-redis-'));
    mkdirSync(this.#data);
    this.certificates = options.tls === true ? makeCertificates(this.folder) : undefined;
    this.clock = options.clock === true ? new MovingClock() : undefined;
    writeFileSync(join(this.folder, 'server.conf'), `${this.#config().join('\n')}\n`);
    if (options.users !== undefined) writeFileSync(join(this.folder, 'users'), `${options.users.join('\n')}\n`);
  }

  static async start(options: RedisServerOptions = {}): Promise<RedisServer> {
    for (let tries = 1; ; tries++) {
      const server = new RedisServer(await freePort(), options);
      try {
        await server.start();
        return server;
      } catch (error) {
        await server[Symbol.asyncDispose]();
        // Another process may have taken the port since we looked.
        const isTaken = error instanceof Error && /already in use/.test(error.message);
        if (!isTaken || tries === 5) throw error;
      }
    }
  }

  get url(): string {
    return `${this.certificates === undefined ? 'redis' : 'rediss'}://${HOST}:${this.port}`;
  }

  get pid(): number {
    return this.#running.pid;
  }

  /** The last it printed. */
  get log(): string {
    return this.#child?.said ?? '';
  }

  get isRunning(): boolean {
    return this.#child?.isRunning === true;
  }

  get isFrozen(): boolean {
    return this.#child?.isFrozen === true;
  }

  /** Starts it with the data that is in its folder. */
  async start(): Promise<void> {
    if (this.isRunning) throw new Error('The server runs already.');
    this.#child = await Child.start({
      command: [this.program.path, join(this.folder, 'server.conf')],
      cwd: this.folder,
      environment: this.clock?.environment,
      ready: /Ready to accept connections|ready to accept connections/,
    });
  }

  /** Ends it in order: it saves what it is set to save. */
  async stop(): Promise<void> {
    await this.#child?.end('SIGTERM');
  }

  /** Ends it between two instructions. */
  async kill(): Promise<void> {
    await this.#child?.end('SIGKILL');
  }

  /** It keeps its sockets and answers nothing. */
  async freeze(): Promise<void> {
    await this.#running.freeze();
  }

  thaw(): void {
    this.#running.thaw();
  }

  /** Kills and starts it; `wipe` takes its data away in between. */
  async restart({ wipe = false }: { wipe?: boolean } = {}): Promise<void> {
    await this.kill();
    if (wipe) this.#emptyData();
    await this.start();
  }

  /** A copy of the data of a server with `aof`, as it is now. */
  save(): SavedData {
    if (this.#options.persistence !== 'aof') throw new Error("Only a server with persistence 'aof' has data to save.");
    const path = join(this.folder, `copy-${++this.#copies}`);
    cpSync(this.#data, path, { recursive: true });
    return { path };
  }

  /** Kills it, puts the older data in place and starts it: what was written since is gone. */
  async putBack(saved: SavedData): Promise<void> {
    await this.kill();
    this.#emptyData();
    cpSync(saved.path, this.#data, { recursive: true });
    await this.start();
  }

  /** Moves its wall clock, forward or back; commands sent after this see the new time. It must be able to answer. */
  async moveClock(ms: number): Promise<void> {
    if (this.clock === undefined) throw new Error('The server was not started with clock: true.');
    this.clock.move(ms);
    // A server may look at its clock once for all commands of a round: two rounds later it has looked.
    await this.ask('PING');
    await this.ask('PING');
  }

  /** Sends a command as an operator would, with all rights, past every proxy. */
  async ask(...args: readonly string[]): Promise<unknown> {
    const [name, ...rest] = args;
    this.#admin ??= this.#openAdmin();
    return this.#admin.call(name!, ...rest);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#admin?.disconnect();
    await this.kill();
    this.clock?.[Symbol.dispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #openAdmin(): Redis {
    const { certificates } = this;
    const tls = certificates === undefined ? {} : { tls: { ca: certificates.ca } };
    const admin = new Redis({ host: HOST, port: this.port, ...tls, retryStrategy: () => 20, enableReadyCheck: false });
    // It reconnects by itself over restarts; commands wait for that.
    admin.on('error', () => {});
    return admin;
  }

  #config(): string[] {
    const { config = [], configFor, persistence = 'none', users } = this.#options;
    return [
      ...(this.certificates === undefined
        ? [`port ${this.port}`]
        : ['port 0', ...tlsConfig(this.certificates, this.port)]),
      `bind ${HOST}`,
      `dir ${this.#data}`,
      'save ""',
      `appendonly ${persistence === 'aof' ? 'yes' : 'no'}`,
      'appendfsync always',
      ...(users === undefined ? [] : [`aclfile ${join(this.folder, 'users')}`]),
      ...config,
      ...(configFor?.(this.port) ?? []),
    ];
  }

  #emptyData(): void {
    rmSync(this.#data, { recursive: true, force: true });
    mkdirSync(this.#data);
  }

  get #data(): string {
    return join(this.folder, 'data');
  }

  get #running(): Child {
    if (this.#child?.isRunning !== true) throw new Error('The server does not run.');
    return this.#child;
  }
}
