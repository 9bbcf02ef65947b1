import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';

const owners = new AsyncLocalStorage<Sockets>();
let isListening = false;

/**
 * The sockets that a client library opens. It leaves one behind when it gives up a connection before the server has
 * spoken, and that one would keep the process running for minutes after all was stopped.
 */
export class Sockets {
  #open: Socket[] = [];

  /** What `work` opens, and whatever comes of it later, is ours. */
  during<T>(work: () => T): T {
    if (!isListening) subscribe('net.client.socket', (message) => owners.getStore()?.add((message as Opened).socket));
    isListening = true;
    return owners.run(this, work);
  }

  add(socket: Socket): void {
    this.#open = [...this.#open.filter(({ destroyed }) => !destroyed), socket];
  }

  destroy(): void {
    for (const socket of this.#open) socket.destroy();
    this.#open = [];
  }
}

interface Opened {
  readonly socket: Socket;
}
