import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

interface Letter {
  readonly name: string;
  readonly hint: string;
}

/**
 * Hints between processes of one host, by datagrams: nothing to clean up, nothing to wait for, and some get lost. Each
 * listener leaves its port in a file of its name. The name is random and known only to who may read the folder, so what
 * bears it is believed.
 */
export class Mailbox {
  readonly #folder: string;
  readonly #listeners = new Map<string, (hint: string) => void>();
  readonly #ports = new Map<string, number>();
  #socket: Promise<Socket> | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async send(name: string, hint: string): Promise<void> {
    const port = this.#ports.get(name) ?? Number(await readFile(this.#file(name), 'utf8'));
    this.#ports.set(name, port);
    const socket = await this.#open();
    socket.send(JSON.stringify({ name, hint } satisfies Letter), port, '127.0.0.1');
  }

  async listen(name: string, listener: (hint: string) => void): Promise<() => Promise<void>> {
    const socket = await this.#open();
    this.#listeners.set(name, listener);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    await writeFile(this.#file(name), String(socket.address().port), { mode: 0o600 });
    return async () => {
      if (this.#listeners.get(name) !== listener) return;
      this.#listeners.delete(name);
      await rm(this.#file(name), { force: true });
    };
  }

  /** A later call opens it again. */
  async close(): Promise<void> {
    const socket = await this.#socket;
    this.#socket = undefined;
    socket?.close();
  }

  #file(name: string): string {
    return join(this.#folder, encodeURIComponent(name));
  }

  #open(): Promise<Socket> {
    this.#socket ??= this.#bind();
    return this.#socket;
  }

  async #bind(): Promise<Socket> {
    const socket = createSocket('udp4', (bytes) => this.#hear(bytes));
    // A hint that could not be sent is lost, as others are.
    socket.on('error', () => {});
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    return socket;
  }

  #hear(bytes: Uint8Array): void {
    const letter = parse(new TextDecoder().decode(bytes));
    if (letter !== undefined) this.#listeners.get(letter.name)?.(letter.hint);
  }
}

function parse(text: string): Letter | undefined {
  try {
    return JSON.parse(text) as Letter;
  } catch {
    return undefined;
  }
}
