import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Child } from '../child.js';
import { PLACE } from '../place.js';
import { freePort } from '../ports.js';
import { until } from '../until.js';
import { anyNats, type NatsProgram } from './programs.js';

export interface NatsServerOptions {
  program?: NatsProgram;
  /** More lines of the configuration, such as `max_payload: 1MB`. */
  config?: readonly string[];
}

const HOST = '127.0.0.1';

/**
 * A NATS server with JetStream, on free loopback ports, in a folder that goes with it. Keeps its ports over restarts. Use it
 * with `await using`.
 */
export class NatsServer implements AsyncDisposable {
  readonly port: number;
  readonly folder = mkdtempSync(join(PLACE, 'botmesh-nats-'));
  readonly #monitorPort: number;
  readonly #program: NatsProgram;
  #child: Child | undefined;
  #copies = 0;

  private constructor(port: number, monitorPort: number, { config = [], program = anyNats() }: NatsServerOptions) {
    this.port = port;
    this.#monitorPort = monitorPort;
    this.#program = program;
    const lines = [
      `listen: ${HOST}:${port}`,
      `http: ${HOST}:${monitorPort}`,
      `jetstream { store_dir: "${this.#store}" }`,
      ...config,
    ];
    writeFileSync(join(this.folder, 'server.conf'), `${lines.join('\n')}\n`);
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    const server = await NatsServer.make(options);
    await server.start();
    return server;
  }

  /** It is not started yet. */
  static async make(options: NatsServerOptions = {}): Promise<NatsServer> {
    return new NatsServer(await freePort(), await freePort(), options);
  }

  get url(): string {
    return `nats://${HOST}:${this.port}`;
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
      command: [this.#program.path, '-c', join(this.folder, 'server.conf')],
      cwd: this.folder,
      ready: /Server is ready/,
    });
  }

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
    if (wipe) this.#emptyStore();
    await this.start();
  }

  /** A copy of its data as it would be if its host were lost now. It stands still meanwhile. */
  async save(): Promise<{ readonly path: string }> {
    const path = join(this.folder, `copy-${++this.#copies}`);
    await this.freeze();
    cpSync(this.#store, path, { recursive: true });
    this.thaw();
    return { path };
  }

  /** Kills it, puts the older data in place and starts it: what was written since is gone. */
  async putBack(saved: { readonly path: string }): Promise<void> {
    await this.kill();
    this.#emptyStore();
    cpSync(saved.path, this.#store, { recursive: true });
    await this.start();
  }

  /** What its monitor says under a path such as `/jsz`. */
  async monitor(path: string): Promise<Record<string, unknown>> {
    const answer = await fetch(`http://${HOST}:${this.#monitorPort}${path}`, { signal: AbortSignal.timeout(2000) });
    return (await answer.json()) as Record<string, unknown>;
  }

  /** Resolves when it says that JetStream works: in a cluster, that it has a leader. */
  async isHealthy(limitMs = 15_000): Promise<void> {
    await until('JetStream works', async () => (await this.monitor('/healthz')).status === 'ok', limitMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #emptyStore(): void {
    rmSync(this.#store, { recursive: true, force: true });
  }

  get #store(): string {
    return join(this.folder, 'store');
  }

  get #running(): Child {
    if (this.#child?.isRunning !== true) throw new Error('The server does not run.');
    return this.#child;
  }
}
