// Accounts of a fake WhatsApp, in processes that are killed, frozen and replaced.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { FakeWhatsApp } from '../../packages/baileys/testing/FakeWhatsApp.js';
import type { Backend } from '../cluster/backends.js';
import { pause } from '../cluster/Cluster.js';

const PROGRAM = fileURLToPath(new URL('./baileys-replica.mjs', import.meta.url));
/** Long enough that a busy machine lets no lease run out by itself. */
const LEASE_MS = 3_000;
const PATIENCE_MS = 60_000;
const ACCOUNTS = ['sales', 'help', 'news'];

interface Replica {
  readonly id: string;
  readonly process: ChildProcess;
  readonly begun: string[];
}

/** A text may be sent twice in a row, by a replica that died before it could say so; nothing else may be out of place. */
const once = (texts: readonly string[]): string[] => texts.filter((text, at) => text !== texts[at - 1]);
const upTo = (count: number): string[] => Array.from({ length: count }, (_, n) => `${n + 1}`);

async function until(what: string, holds: () => boolean): Promise<void> {
  const untilMs = Date.now() + PATIENCE_MS;
  while (!holds()) {
    if (Date.now() > untilMs) throw new Error(`After ${PATIENCE_MS} ms not so: ${what}.`);
    await pause(5);
  }
}

class Fleet implements AsyncDisposable {
  readonly platform: FakeWhatsApp;
  readonly replicas: Replica[] = [];
  readonly #backend: Awaited<ReturnType<Backend['open']>>;
  #starts = 0;

  private constructor(platform: FakeWhatsApp, backend: Awaited<ReturnType<Backend['open']>>) {
    this.platform = platform;
    this.#backend = backend;
  }

  static async open(backend: Backend): Promise<Fleet> {
    return new Fleet(await FakeWhatsApp.open(), await backend.open());
  }

  async launch(): Promise<Replica> {
    const id = `r${++this.#starts}`;
    const told = {
      backend: this.#backend.reach,
      replicaId: id,
      leaseMs: LEASE_MS,
      port: this.platform.port,
      accounts: ACCOUNTS,
    };
    const env = { ...process.env, NODE_NO_WARNINGS: '1' };
    const child = fork(PROGRAM, [JSON.stringify(told)], { execArgv: [], env });
    const replica: Replica = { id, process: child, begun: [] };
    this.replicas.push(replica);
    let isStarted = false;
    child.on('message', (message: { begun?: string; started?: true }) => {
      if (message.begun !== undefined) replica.begun.push(message.begun);
      isStarted ||= message.started === true;
    });
    await until(`${id} has started`, () => isStarted);
    return replica;
  }

  async end(replica: Replica, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.replicas.splice(this.replicas.indexOf(replica), 1);
    const gone = new Promise((resolve) => replica.process.once('exit', resolve));
    replica.process.kill(signal);
    await gone;
  }

  async isShared(): Promise<void> {
    await until('each replica has one account', () => new Set(this.holders()).size === ACCOUNTS.length);
  }

  holders(): (string | undefined)[] {
    return ACCOUNTS.map((account) => this.platform.holder(account)).filter((holder) => holder !== undefined);
  }

  holderOf(account: string): Replica {
    return this.replicas.find(({ id }) => id === this.platform.holder(account))!;
  }

  async sent(account: string, jid: string, text: string): Promise<void> {
    await until(`${jid} of ${account} was sent ${text}`, () => this.platform.texts(account, jid).includes(text));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const replica of [...this.replicas]) await this.end(replica, 'SIGKILL');
    await this.#backend.close();
    await this.platform[Symbol.asyncDispose]();
  }
}

/** The facts, on a backend that is opened for each alone. */
export function declareBaileysFacts(backend: Backend): void {
  test(`${backend.name}: three processes share three accounts, one is killed, one frozen beyond its lease and thawed, each replaced: none lost, in order, one socket each`, {
    timeout: 120_000,
  }, async () => {
    await using fleet = await Fleet.open(backend);
    const { platform } = fleet;
    await Promise.all([fleet.launch(), fleet.launch(), fleet.launch()]);
    await fleet.isShared();

    // Killed with a message in hand; the next ones come while nobody has the account.
    const killed = fleet.holderOf('sales');
    platform.deliver('sales', { id: '1', jid: 'ana', text: '1 800' });
    await until('it has begun', () => killed.begun.includes('1'));
    await fleet.end(killed, 'SIGKILL');
    for (const id of ['2', '3']) platform.deliver('sales', { id, jid: 'ana', text: id });
    await fleet.sent('sales', 'ana', '3');
    expect(once(platform.texts('sales', 'ana'))).toEqual(upTo(3));
    // One that died cannot be told apart from one that still has its connection, but by the platform: nobody was thrown out.
    expect(platform.thrownOut).toEqual([]);

    // Frozen with a message in hand. Its connection stays open, as far as the platform can see: its successor ends that.
    const frozen = fleet.holderOf('help');
    platform.deliver('help', { id: '1', jid: 'ben', text: '1 800' });
    await until('it has begun', () => frozen.begun.includes('1'));
    const held = ACCOUNTS.filter((account) => platform.holder(account) === frozen.id);
    frozen.process.kill('SIGSTOP');
    platform.deliver('help', { id: '2', jid: 'ben', text: '2' });
    await fleet.sent('help', 'ben', '2');
    await until('all it had is elsewhere', () => held.every((account) => platform.holder(account) !== frozen.id));
    const logins = platform.logins.length;
    frozen.process.kill('SIGCONT');
    await pause(1_000);
    expect(platform.texts('help', 'ben')).toEqual(['1', '2']);
    expect(platform.sent.filter(({ by, account }) => by === frozen.id && account === 'help')).toEqual([]);
    // On waking it did not fight for what it had lost; accounts may have been shared out anew since.
    expect(platform.thrownOut.toSorted()).toEqual(held.toSorted());
    expect(platform.logins.slice(logins).length).toBeLessThanOrEqual(ACCOUNTS.length);

    // Replaced one after the other, while messages come: whoever goes closes its socket first.
    platform.thrownOut.splice(0);
    let isOver = false;
    const delivering = ACCOUNTS.map(async (account) => {
      let n = 0;
      while (!isOver) {
        platform.deliver(account, { id: `roll ${++n}`, jid: 'eve', text: `${n} 10` });
        await pause(40);
      }
      return n;
    });
    for (const old of [...fleet.replicas]) {
      await fleet.launch();
      await fleet.end(old, 'SIGTERM');
    }
    isOver = true;
    const counts = await Promise.all(delivering);
    for (const [at, account] of ACCOUNTS.entries()) await fleet.sent(account, 'eve', `${counts[at]}`);

    for (const [at, account] of ACCOUNTS.entries()) expect(platform.texts(account, 'eve')).toEqual(upTo(counts[at]!));
    expect(platform.thrownOut).toEqual([]);
  });
}
