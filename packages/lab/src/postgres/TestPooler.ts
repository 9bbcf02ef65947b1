import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, giveAway } from '../child.js';
import { freePort } from '../ports.js';
import { pgBouncer } from './programs.js';

/** A PgBouncer before one server, in transaction mode: connections of its clients share those of the server. */
export class TestPooler implements AsyncDisposable {
  readonly port: number;
  readonly folder: string;
  #child: Child;

  private constructor(port: number, folder: string, child: Child) {
    this.port = port;
    this.folder = folder;
    this.#child = child;
  }

  /** @throws Error when it is not installed: ask `pgBouncer()` before */
  static async start(serverPort: number, settings: readonly string[] = []): Promise<TestPooler> {
    const port = await freePort();
    const folder = mkdtempSync(join(tmpdir(), 'botmesh-pgbouncer-'));
    giveAway(folder);
    const file = join(folder, 'pgbouncer.ini');
    writeFileSync(join(folder, 'users.txt'), '"postgres" ""\n');
    const lines = [
      '[databases]',
      // With auth_type any, whoever comes is this user.
      `* = host=127.0.0.1 port=${serverPort} user=postgres`,
      '[pgbouncer]',
      'listen_addr = 127.0.0.1',
      `listen_port = ${port}`,
      'unix_socket_dir =',
      'auth_type = any',
      `auth_file = ${join(folder, 'users.txt')}`,
      'pool_mode = transaction',
      'default_pool_size = 8',
      'max_client_conn = 200',
      ...settings,
    ];

    writeFileSync(file, `${lines.join('\n')}\n`);
    try {
      return new TestPooler(port, folder, await run(folder));
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  /** Ends it at once, with all of its connections, and starts it again on its port. */
  async restart(): Promise<void> {
    await this.#child.end('SIGKILL');
    this.#child = await run(this.folder);
  }

  url(database = 'postgres'): string {
    return `postgres://postgres@127.0.0.1:${this.port}/${database}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.end('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
}

async function run(folder: string): Promise<Child> {
  const program = pgBouncer();
  if (program === undefined) throw new Error('pgbouncer is not installed.');
  const command = [program, join(folder, 'pgbouncer.ini')];
  return Child.start({ command, cwd: folder, asServer: true, ready: /process up: PgBouncer/ });
}
