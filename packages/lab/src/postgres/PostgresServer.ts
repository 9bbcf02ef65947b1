import { execFileSync } from 'node:child_process';
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { Child, giveAway, runAsServer } from '../child.js';
import { freePort } from '../ports.js';
import { pause, until } from '../until.js';
import { postgresFolder } from './programs.js';

export interface PostgresServerOptions {
  /** More settings, such as `max_connections = 5`. */
  config?: readonly string[];
  /** Lines of pg_hba.conf that come before those that trust everybody. */
  hba?: readonly string[];
  environment?: Readonly<Record<string, string>>;
}

/** Data as it was at some moment, to be put back later. */
export interface SavedPostgres {
  readonly path: string;
}

const HOST = '127.0.0.1';
const ROOM = 512 * 2 ** 20;

/** A disk in memory where there is one with room: nothing here needs to outlive its test. */
function place(): string {
  if (!existsSync('/dev/shm')) return tmpdir();
  const { bavail, bsize } = statfsSync('/dev/shm');
  return bavail * bsize > ROOM ? '/dev/shm' : tmpdir();
}

const CONFIG = [
  `listen_addresses = '${HOST}'`,
  "unix_socket_directories = ''",
  'min_wal_size = 2MB',
  'max_wal_size = 64MB',
  'shared_buffers = 32MB',
  // In its folder, which goes with it.
  'dynamic_shared_memory_type = mmap',
  'max_connections = 60',
  'wal_level = replica',
  'autovacuum_naptime = 1s',
  'wal_keep_size = 32MB',
];

/**
 * A PostgreSQL of one test, on a free loopback port, in a folder that goes with it. Keeps its port over restarts. Its
 * operator is `postgres`, who needs no password. Use it with `await using`.
 */
export class PostgresServer implements AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  readonly #options: PostgresServerOptions;
  #child: Child | undefined;
  #copies = 0;
  #admin: Client | undefined;

  private constructor(port: number, options: PostgresServerOptions) {
    this.#options = options;
    this.port = port;
    this.folder = mkdtempSync(join(place(), 'botmesh-postgres-'));
    giveAway(this.folder);
  }

  static async start(options: PostgresServerOptions = {}): Promise<PostgresServer> {
    return PostgresServer.#make(options, async (server) => {
      const settings = ['-E', 'UTF8', '--locale=C.UTF-8', '-A', 'trust', '-U', 'postgres', '--wal-segsize=1'];
      await runAsServer(
        [server.#program('initdb'), '-D', server.data, '--no-sync', '--no-instructions', ...settings],
        server.folder,
      );
    });
  }

  static async #make(
    options: PostgresServerOptions,
    fill: (server: PostgresServer) => Promise<void>,
  ): Promise<PostgresServer> {
    const server = new PostgresServer(await freePort(), options);
    try {
      await fill(server);
      server.#configure();
      await server.start();
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** A standby that follows this server, as an asynchronous one does: by a proxy before it, if that port is given. */
  async standby(options: PostgresServerOptions = {}, port = this.port): Promise<PostgresServer> {
    return PostgresServer.#make(options, async (standby) => {
      await this.#copyTo(standby);
      const way = `primary_conninfo = 'host=${HOST} port=${port} user=postgres'\n`;
      appendFileSync(join(standby.data, 'postgresql.auto.conf'), way);
    });
  }

  get data(): string {
    return join(this.folder, 'data');
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

  url(database = 'postgres', login = 'postgres'): string {
    return `postgres://${login}@${HOST}:${this.port}/${database}`;
  }

  /** Starts it with the data that is in its folder. */
  async start(): Promise<void> {
    if (this.isRunning) throw new Error('The server runs already.');
    this.#child = await Child.start({
      command: [this.#program('postgres'), '-D', this.data],
      cwd: this.folder,
      asServer: true,
      environment: { LC_ALL: 'C.UTF-8', ...this.#options.environment },
      ready: /database system is ready to accept (?:read-only )?connections/,
      limitMs: 60_000,
    });
  }

  /** Ends it in order, and every connection to it. */
  async stop(): Promise<void> {
    await this.#forget();
    await this.#child?.end('SIGINT');
  }

  /** Ends it without order, as an operator may who has no time: it recovers at its next start. */
  async stopAtOnce(): Promise<void> {
    await this.#forget();
    await this.#child?.end('SIGQUIT');
  }

  /** Kills the process behind one connection of somebody else. The server ends all others, and recovers after `onKilled`. */
  async killBackend(onKilled: () => void = () => {}): Promise<void> {
    const before = await this.#startedAt();
    while (!(await this.#killOne()));
    onKilled();
    // A writer that stands still hears only now that it is to end: it writes nothing before.
    await pause(500);
    this.thaw();
    await until('it has recovered', async () => (await this.#startedAt()) !== before);
  }

  /** Ends it between two instructions, as the loss of its host does. What was not flushed stays with the system, though. */
  async kill(): Promise<void> {
    await this.#forget();
    await this.#child?.end('SIGKILL');
  }

  /** A copy of its data as it would be if its host were lost now. It stands still meanwhile, if it runs. */
  async save(): Promise<SavedPostgres> {
    const path = join(this.folder, `copy-${++this.#copies}`);
    const { isRunning } = this;
    if (isRunning) await this.freeze();
    // As the user whose data it is.
    execFileSync('cp', ['-a', this.data, path]);
    if (isRunning) this.thaw();
    rmSync(join(path, 'postmaster.pid'), { force: true });
    return { path };
  }

  /** Kills it, puts the older data in place and starts it: what was written since is gone. */
  async putBack(saved: SavedPostgres): Promise<void> {
    await this.kill();
    this.#freeMemory();
    rmSync(this.data, { recursive: true, force: true });
    execFileSync('cp', ['-a', saved.path, this.data]);
    await this.start();
  }

  /** All of its processes keep their sockets and answer nothing. */
  async freeze(): Promise<void> {
    await this.#running.freeze();
  }

  thaw(): void {
    this.#running.thaw();
  }

  /** From now on nothing reaches the disk that no transaction waits for, until the server ends. */
  async freezeWriter(): Promise<void> {
    await this.ask('checkpoint');
    const [row] = await this.ask("select pid from pg_stat_activity where backend_type = 'walwriter'");
    process.kill(row![0] as number, 'SIGSTOP');
  }

  /** Makes a standby take writes. */
  async promote(): Promise<void> {
    await this.ask('select pg_promote()');
    await until('it takes writes', async () => (await this.ask('select pg_is_in_recovery()'))[0]?.[0] === false);
  }

  /** Runs statements as the operator, past every proxy. Gives the rows of one statement. */
  async ask(text: string, values?: readonly unknown[]): Promise<unknown[][]> {
    this.#admin ??= await this.#openAdmin();
    const { rows } = await this.#admin.query({ text, rowMode: 'array', ...(values && { values: [...values] }) });
    return rows as unknown[][];
  }

  /** A database of its own, whose URL it gives. */
  async database(name: string): Promise<string> {
    await this.ask(`create database "${name}"`);
    return this.url(name);
  }

  /** How many connections there are besides this one's own. */
  async connections(): Promise<number> {
    const [row] = await this.ask(
      "select count(*)::int from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()",
    );
    return row?.[0] as number;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#forget();
    // At once, and yet it gives its shared memory back.
    await this.#child?.end('SIGQUIT');
    this.#freeMemory();
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** As pg_basebackup does, which does not come with every server. */
  async #copyTo(standby: PostgresServer): Promise<void> {
    const isOld = Number((await this.ask('show server_version_num'))[0]?.[0]) < 150_000;
    await this.ask(isOld ? "select pg_start_backup('', true, false)" : "select pg_backup_start('', true)");
    // Files that go meanwhile are none that the backup needs.
    await runAsServer(['cp', '-a', this.data, standby.data], standby.folder).catch(() => {});
    const [row] = await this.ask(
      `select labelfile from ${isOld ? 'pg_stop_backup(false, false)' : 'pg_backup_stop(false)'}`,
    );
    for (const file of ['postmaster.pid', 'postmaster.opts']) rmSync(join(standby.data, file), { force: true });
    for (const [name, text] of [
      ['backup_label', row![0] as string],
      ['standby.signal', ''],
    ] as const) {
      writeFileSync(join(standby.data, name), text);
      giveAway(join(standby.data, name));
    }
  }

  /** Gives false where it had ended by then. */
  async #killOne(): Promise<boolean> {
    const [row] = await this.ask(
      "select pid from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() order by random()",
    );
    if (row === undefined) throw new Error('Nobody else is connected.');
    try {
      return process.kill(row[0] as number, 'SIGKILL');
    } catch {
      return false;
    }
  }

  /** Another after each recovery, while the postmaster stays. */
  async #startedAt(): Promise<string> {
    const [row] = await this.ask(
      "select min(backend_start)::text from pg_stat_activity where backend_type = 'checkpointer'",
    );
    return row?.[0] as string;
  }

  /** What a killed server has left to the system. */
  #freeMemory(): void {
    const file = join(this.data, 'postmaster.pid');
    const id = existsSync(file) ? /^\s*\d+\s+(\d+)\s*$/m.exec(readFileSync(file, 'utf8'))?.[1] : undefined;
    if (id === undefined) return;
    try {
      execFileSync('ipcrm', ['-m', id], { stdio: 'ignore' });
    } catch {
      // It was gone.
    }
  }

  async #openAdmin(): Promise<Client> {
    const admin = new Client({ connectionString: this.url() });
    admin.on('error', () => {
      if (this.#admin === admin) this.#admin = undefined;
    });
    await admin.connect();
    return admin;
  }

  async #forget(): Promise<void> {
    const admin = this.#admin;
    this.#admin = undefined;
    await admin?.end().catch(() => {});
  }

  #configure(): void {
    const { config = [], hba = [] } = this.#options;
    const trust = ['host all all 127.0.0.1/32 trust', 'host replication all 127.0.0.1/32 trust'];
    writeFileSync(join(this.data, 'pg_hba.conf'), `${[...hba, ...trust].join('\n')}\n`);
    const lines = [...CONFIG, `port = ${this.port}`, ...config];
    writeFileSync(join(this.data, 'postgresql.conf'), `${lines.join('\n')}\n`);
  }

  #program(name: string): string {
    return join(postgresFolder(), name);
  }

  get #running(): Child {
    if (this.#child?.isRunning !== true) throw new Error('The server does not run.');
    return this.#child;
  }
}
