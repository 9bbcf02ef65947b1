import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, freePort } from '@botmesh/lab';
import { anyProgram, type Program } from './programs.js';

export interface NatsServerOptions {
  readonly program?: Program | undefined;
  /** More lines of the configuration, such as `max_payload: 4096`. */
  readonly config?: string | undefined;
  /** Such lines where they need files in the server's folder. */
  readonly configIn?: ((folder: string) => string) | undefined;
  /** In place of JetStream with its defaults; empty for none. */
  readonly jetstream?: string | undefined;
  readonly port?: number | undefined;
}

/** Data as it was at some moment, to be put back later. */
export interface SavedData {
  readonly path: string;
}

const HOST = '127.0.0.1';
/** A disk in memory where there is one: nothing here needs to outlive its test. */
const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();

/**
 * A nats-server of one test with JetStream, on a free loopback port, in a folder that goes with it. Keeps its port over
 * restarts. Use it with `await using`.
 */
export class NatsServer implements AsyncDisposable {
  readonly port: number;
  readonly program: Program;
  readonly folder: string;
  readonly #options: NatsServerOptions;
  #child: Child | undefined;
  #copies = 0;

  constructor(port: number, options: NatsServerOptions) {
    this.port = port;
    this.#options = options;
    this.program = options.program ?? anyProgram();
    this.folder = mkdtempSync(join(PLACE, 'botmesh-nats-'));
  }

  static async start(options: NatsServerOptions = {}): Promise<NatsServer> {
    const server = new NatsServer(options.port ?? (await freePort()), options);
    try {
      await server.start();
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  get url(): string {
    return `nats://${HOST}:${this.port}`;
  }

  get isRunning(): boolean {
    return this.#child?.isRunning === true;
  }

  async start(): Promise<void> {
    const { config = '', configIn, jetstream } = this.#options;
    const store = `jetstream {\n  store_dir: "${this.#data}"\n  ${jetstream ?? ''}\n}`;
    const lines = [
      `listen: "${HOST}:${this.port}"`,
      jetstream === '' ? '' : store,
      config,
      configIn?.(this.folder) ?? '',
    ];
    const file = join(this.folder, 'server.conf');
    writeFileSync(file, lines.join('\n'));
    const command = [this.program.path, '-c', file];
    this.#child = await Child.start({ command, cwd: this.folder, ready: /Server is ready/, limitMs: 30_000 });
  }

  /** Ends it between two instructions. */
  async kill(): Promise<void> {
    await this.#child?.end('SIGKILL');
  }

  /** Ends it in order. */
  async stop(): Promise<void> {
    await this.#child?.end('SIGTERM');
  }

  /** Killed and started again, with its data or without. */
  async restart({ wipe = false }: { wipe?: boolean } = {}): Promise<void> {
    await this.kill();
    if (wipe) rmSync(this.#data, { recursive: true, force: true });
    await this.start();
  }

  /** Keeps what is on the disk now. It is stopped for that: half a write is no copy. */
  async save(): Promise<SavedData> {
    await this.stop();
    this.#copies += 1;
    const path = join(this.folder, `copy-${this.#copies}`);
    cpSync(this.#data, path, { recursive: true });
    await this.start();
    return { path };
  }

  /** Killed, and started with older data. */
  async putBack(saved: SavedData): Promise<void> {
    await this.kill();
    rmSync(this.#data, { recursive: true, force: true });
    mkdirSync(this.#data);
    cpSync(saved.path, this.#data, { recursive: true });
    await this.start();
  }

  freeze(): Promise<void> {
    return this.#running.freeze();
  }

  thaw(): void {
    this.#running.thaw();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    rmSync(this.folder, { recursive: true, force: true });
  }

  get #data(): string {
    return join(this.folder, 'data');
  }

  get #running(): Child {
    if (this.#child?.isRunning !== true) throw new Error('The server does not run.');
    return this.#child;
  }
}
