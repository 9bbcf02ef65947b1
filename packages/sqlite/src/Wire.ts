import { rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import type { Push } from '@botmesh/core/spi';

/** How pushes go to whoever listens for an instance, in whichever process. */
export interface Wire {
  listen(instance: string, onPush: (push: Push) => void): Promise<void>;
  send(instance: string, push: Push): void;
  close(): void;
}

/** Over a Unix socket for each listener. What cannot be delivered is dropped. */
export class SocketWire implements Wire {
  readonly #addressOf: (instance: string) => string;
  readonly #peers = new Map<string, Socket>();
  readonly #incoming = new Set<Socket>();
  #server: Server | undefined;

  constructor(addressOf: (instance: string) => string) {
    this.#addressOf = addressOf;
  }

  listen(instance: string, onPush: (push: Push) => void): Promise<void> {
    const address = this.#addressOf(instance);
    rmSync(address, { force: true });
    const server = createServer((socket) => {
      this.#incoming.add(socket);
      socket.on('close', () => this.#incoming.delete(socket));
      socket.on('error', () => socket.destroy());
      readLines(socket, (line) => onPush(JSON.parse(line) as Push));
      socket.unref();
    });
    this.#server = server;
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(address, () => {
        server.unref();
        resolve();
      });
    });
  }

  send(instance: string, push: Push): void {
    this.#peer(instance).write(`${JSON.stringify(push)}\n`);
  }

  close(): void {
    this.#server?.close();
    this.#server = undefined;
    for (const socket of this.#incoming) socket.destroy();
    // What was pushed last, by a leave, still goes out.
    for (const socket of this.#peers.values()) socket.end();
    this.#peers.clear();
  }

  #peer(instance: string): Socket {
    const known = this.#peers.get(instance);
    if (known !== undefined) return known;
    const socket = connect(this.#addressOf(instance));
    this.#peers.set(instance, socket);
    socket.unref();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => {
      if (this.#peers.get(instance) === socket) this.#peers.delete(instance);
    });
    return socket;
  }
}

function readLines(socket: Socket, onLine: (line: string) => void): void {
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) {
      try {
        onLine(line);
      } catch {
        // Not from one of us: heartbeats bring the truth.
      }
    }
  });
}
