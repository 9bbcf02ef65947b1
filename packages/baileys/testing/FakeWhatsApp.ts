// For the tests of this package: a platform that lets one connection of an account be, and throws out the older one.

import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';

export interface WaSent {
  readonly account: string;
  readonly jid: string;
  readonly text: string;
  readonly by: string;
}

export interface Incoming {
  readonly id?: string;
  readonly jid?: string;
  readonly text: string;
}

interface Line {
  readonly account: string;
  readonly by: string;
  readonly socket: Socket;
}

export class FakeWhatsApp implements AsyncDisposable {
  readonly sent: WaSent[] = [];
  /** Each connection that was made, in order. */
  readonly logins: { readonly account: string; readonly by: string }[] = [];
  /** The accounts of which an older connection was thrown out by a newer one. */
  readonly thrownOut: string[] = [];
  readonly #server: Server;
  readonly #open = new Map<string, Line>();
  readonly #owed = new Map<string, Incoming[]>();
  /** With what code each account's connections are closed as soon as they are made. */
  readonly refusals = new Map<string, number>();

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(): Promise<FakeWhatsApp> {
    const server = createServer();
    const platform = new FakeWhatsApp(server);
    server.on('connection', (socket) => platform.#connected(socket));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return platform;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Who is connected as the account. */
  holder(account: string): string | undefined {
    return this.#open.get(account)?.by;
  }

  texts(account: string, jid: string): string[] {
    return this.sent.filter((each) => each.account === account && each.jid === jid).map(({ text }) => text);
  }

  /** Kept until it is confirmed, and told again to the next connection. */
  deliver(account: string, message: Incoming): void {
    const owed = this.#owed.get(account) ?? [];
    owed.push(message);
    this.#owed.set(account, owed);
    const line = this.#open.get(account);
    if (line !== undefined) tell(line.socket, { kind: 'message', ...message });
  }

  /** Told, and not waited for: as a redelivery. */
  repeat(account: string, message: Incoming): void {
    const line = this.#open.get(account);
    if (line !== undefined) tell(line.socket, { kind: 'message', ...message });
  }

  close(account: string, code: number): void {
    const line = this.#open.get(account);
    this.#open.delete(account);
    if (line !== undefined) tell(line.socket, { kind: 'close', code });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { socket } of this.#open.values()) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #connected(socket: Socket): void {
    let rest = '';
    let line: Line | undefined;
    socket.on('error', () => {});
    socket.on('close', () => {
      if (line !== undefined && this.#open.get(line.account) === line) this.#open.delete(line.account);
    });
    socket.on('data', (chunk) => {
      const parts = (rest + String(chunk)).split('\n');
      rest = parts.pop() ?? '';
      for (const part of parts) {
        const told = JSON.parse(part) as Record<string, unknown>;
        if (typeof told.login === 'string') line = this.#login(told.login, String(told.by), socket);
        else if (line !== undefined) this.#heard(line, told);
      }
    });
  }

  #login(account: string, by: string, socket: Socket): Line {
    const line = { account, by, socket };
    this.logins.push({ account, by });
    const refusal = this.refusals.get(account);
    if (refusal !== undefined) {
      tell(socket, { kind: 'close', code: refusal });
      return line;
    }
    if (this.#open.has(account)) {
      this.thrownOut.push(account);
      this.close(account, 440);
    }
    this.#open.set(account, line);
    tell(socket, { kind: 'open' });
    for (const message of this.#owed.get(account) ?? []) tell(socket, { kind: 'message', isOffline: true, ...message });
    return line;
  }

  #heard({ account, by, socket }: Line, told: Record<string, unknown>): void {
    if ('confirm' in told) {
      const owed = this.#owed.get(account) ?? [];
      this.#owed.set(
        account,
        owed.filter(({ id }) => id !== told.confirm),
      );
    }
    const { send } = told as { send?: { jid: string; text: string } };
    if (send === undefined) return;
    this.sent.push({ account, by, ...send });
    tell(socket, { kind: 'sent', ask: told.ask, id: `sent-${this.sent.length}` });
  }
}

function tell(socket: Socket, what: object): void {
  if (socket.writable) socket.write(`${JSON.stringify(what)}\n`);
}
