import { unavailable } from './replies.js';

interface Sender {
  send(args: readonly string[], key?: string): Promise<unknown>;
  close(): void;
}

/** Commands through a link of their own, which is made for the first of them: what is long does not hold up what is not. */
export class LongCommands implements Sender {
  readonly #open: () => Promise<Sender>;
  #opening: Promise<Sender> | undefined;
  #isClosed = false;

  /** `open` rejects when there is no link; it is called again for the next command. */
  constructor(open: () => Promise<Sender>) {
    this.#open = open;
  }

  async send(args: readonly string[], key?: string): Promise<unknown> {
    if (this.#isClosed) throw unavailable('The connection was closed.');
    const opening = this.#opening ?? this.#open();
    this.#opening = opening;
    try {
      await opening;
    } catch (error) {
      if (this.#opening === opening) this.#opening = undefined;
      throw error;
    }
    return (await opening).send(args, key);
  }

  close(): void {
    this.#isClosed = true;
    this.#opening?.then(
      (sender) => sender.close(),
      () => {},
    );
  }
}
