import { rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import Database from 'better-sqlite3';
import type { At, Line, Message } from '../subject.js';

/** How a process learns that a ticket of its own has come to the head. */
export type Wake = 'push' | 'poll';

const POLL_MS = 2;

interface Head {
  readonly id: number;
  readonly process: number;
}

/**
 * The least over SQLite that keeps a chat in order between processes: a table of tickets, one transaction to take one, one
 * to give it back. It knows no death, no pause, no lost push: it is what anything better is measured by, and nothing to use.
 */
export class SqliteTicket implements Line {
  readonly #own: number;
  readonly #where: string;
  readonly #database: Database.Database;
  readonly #take: (chat: string) => { id: number; isHead: boolean };
  readonly #give: (chat: string, id: number) => Head | undefined;
  readonly #head: (chat: string) => Head | undefined;
  readonly #waiting = new Map<number, { chat: string; resolve: () => void }>();
  readonly #peers = new Map<number, Socket>();
  #server: Server | undefined;
  #timer: NodeJS.Timeout | undefined;

  private constructor({ id, where }: At) {
    this.#own = id;
    this.#where = where;
    const database = new Database(`${where}/plain.db`, { timeout: 10_000 });
    this.#database = database;
    database.pragma('synchronous = NORMAL');
    const first = database.prepare<[string], Head>('SELECT id, process FROM ticket WHERE chat = ? ORDER BY id LIMIT 1');
    const insert = database.prepare<[string, number]>('INSERT INTO ticket (chat, process) VALUES (?, ?)');
    const remove = database.prepare<[number]>('DELETE FROM ticket WHERE id = ?');
    this.#head = (chat) => first.get(chat);
    const take = database.transaction((chat: string) => {
      const isHead = first.get(chat) === undefined;
      return { id: Number(insert.run(chat, id).lastInsertRowid), isHead };
    });
    const give = database.transaction((chat: string, ticket: number) => {
      remove.run(ticket);
      return first.get(chat);
    });
    this.#take = (chat) => take.immediate(chat);
    this.#give = (chat, ticket) => give.immediate(chat, ticket);
  }

  /** Makes the table. Once for all processes, before any of them opens. */
  static prepare(where: string): void {
    const database = new Database(`${where}/plain.db`);
    database.pragma('journal_mode = WAL');
    database.exec(`
      CREATE TABLE ticket (id INTEGER PRIMARY KEY AUTOINCREMENT, chat TEXT NOT NULL, process INTEGER NOT NULL);
      CREATE INDEX ticket_chat ON ticket (chat, id);
    `);
    database.close();
  }

  static async open(at: At, wake: Wake): Promise<SqliteTicket> {
    const line = new SqliteTicket(at);
    if (wake === 'push') await line.#listen();
    else line.#poll();
    return line;
  }

  async submit(chat: string, message: Message): Promise<void> {
    const { id, isHead } = this.#take(chat);
    message.placed();
    if (!isHead) await new Promise<void>((resolve) => this.#waiting.set(id, { chat, resolve }));
    await message.handle();
    const next = this.#give(chat, id);
    if (next === undefined) return;
    if (next.process === this.#own) this.#go(next.id);
    else if (this.#server !== undefined) this.#peer(next.process).write(`${next.id}\n`);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#server?.close();
    for (const peer of this.#peers.values()) peer.destroy();
    this.#database.close();
  }

  #go(id: number): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    waiting?.resolve();
  }

  async #listen(): Promise<void> {
    const server = createServer((socket) => {
      let rest = '';
      socket.setEncoding('latin1');
      socket.on('error', () => {});
      socket.on('data', (chunk: string) => {
        const lines = (rest + chunk).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) this.#go(Number(line));
      });
    });
    this.#server = server;
    rmSync(this.#socketOf(this.#own), { force: true });
    await new Promise<void>((resolve) => server.listen(this.#socketOf(this.#own), resolve));
  }

  #poll(): void {
    const version = this.#database.prepare<[], number>('PRAGMA data_version').pluck();
    let last: unknown;
    this.#timer = setInterval(() => {
      if (this.#waiting.size === 0) return;
      const now = version.get();
      if (now === last) return;
      last = now;
      for (const [id, { chat }] of [...this.#waiting]) if (this.#head(chat)?.id === id) this.#go(id);
    }, POLL_MS);
  }

  #peer(process: number): Socket {
    const known = this.#peers.get(process);
    if (known !== undefined) return known;
    const socket = connect(this.#socketOf(process));
    socket.on('error', () => {});
    this.#peers.set(process, socket);
    return socket;
  }

  #socketOf(process: number): string {
    return `${this.#where}/${process}.sock`;
  }
}
