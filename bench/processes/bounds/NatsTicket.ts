import { jetstreamManager } from '@nats-io/jetstream';
import { connect, headers, type NatsConnection } from '@nats-io/transport-node';
import type { At, Line, Message } from '../subject.js';

const decoder = new TextDecoder();

interface Head {
  readonly seq: number;
  readonly process: string;
}

/**
 * The least over JetStream that keeps a chat in order between processes: a message for each ticket, on a subject for each
 * chat, where the oldest holds it. To take is to publish, to give is to delete; who is next is looked up and told. It knows
 * no death, no pause and no lost message: nothing to use.
 */
export class NatsTicket implements Line {
  readonly #own: string;
  readonly #stream: string;
  readonly #client: NatsConnection;
  readonly #waiting = new Map<number, (fence: number) => void>();
  readonly #early = new Set<number>();
  /** The last that was asked for each chat, by this process: its own places are taken one after the other. */
  readonly #tails = new Map<string, Promise<void>>();

  private constructor(id: number, stream: string, client: NatsConnection) {
    this.#own = String(id);
    this.#stream = stream;
    this.#client = client;
  }

  static async open({ id, where }: At): Promise<NatsTicket> {
    const [url = '', stream = ''] = where.split(' ');
    const client = await connect({ servers: url });
    const line = new NatsTicket(id, stream, client);
    client.subscribe(`${stream}.wake.${id}`, { callback: (_error, message) => line.#wake(Number(message.string())) });
    await client.flush();
    return line;
  }

  static async make(url: string, stream: string): Promise<void> {
    await managed(url, (manager) =>
      manager.streams.add({ name: stream, subjects: [`${stream}.chat.*`], storage: 'file', allow_direct: true }),
    );
  }

  static async drop(url: string, stream: string): Promise<void> {
    await managed(url, (manager) => manager.streams.delete(stream));
  }

  async submit(chat: string, message: Message): Promise<void> {
    const subject = `${this.#stream}.chat.${chat}`;
    const former = this.#tails.get(chat);
    let done = (): void => {};
    const mine = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.#tails.set(chat, mine);
    await former;
    let seq: number | undefined;
    let isHeld = true;
    try {
      if (former === undefined) seq = await this.#publish(subject, true);
      if (seq === undefined) {
        seq = await this.#publish(subject, false);
        isHeld = (await this.#headOf(subject))?.seq === seq;
      }
    } finally {
      if (this.#tails.get(chat) === mine) this.#tails.delete(chat);
      done();
    }
    message.placed();
    await message.handle(isHeld ? seq : await this.#turnOf(seq!));
    await this.#client.request(`$JS.API.STREAM.MSG.DELETE.${this.#stream}`, JSON.stringify({ seq, no_erase: true }), {
      timeout: 10_000,
    });
    const next = await this.#headOf(subject);
    if (next === undefined) return;
    if (next.process === this.#own) this.#wake(next.seq);
    else this.#client.publish(`${this.#stream}.wake.${next.process}`, String(next.seq));
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  /** The place taken; undefined when it was to be the first and is not. */
  async #publish(subject: string, isFirst: boolean): Promise<number | undefined> {
    const given = headers();
    if (isFirst) given.set('Nats-Expected-Last-Subject-Sequence', '0');
    const options = { timeout: 10_000, ...(isFirst ? { headers: given } : {}) };
    const { seq, error } = (await this.#client.request(subject, this.#own, options)).json<{
      seq?: number;
      error?: { description: string };
    }>();
    if (error !== undefined && !error.description.includes('wrong last sequence')) throw new Error(error.description);
    return error === undefined ? seq : undefined;
  }

  async #headOf(subject: string): Promise<Head | undefined> {
    const wanted = JSON.stringify({ seq: 1, next_by_subj: subject });
    const found = await this.#client.request(`$JS.API.DIRECT.GET.${this.#stream}`, wanted, { timeout: 10_000 });
    if (found.headers?.code === 404) return undefined;
    return { seq: Number(found.headers?.get('Nats-Sequence')), process: decoder.decode(found.data) };
  }

  #turnOf(seq: number): Promise<number> {
    if (this.#early.delete(seq)) return Promise.resolve(seq);
    return new Promise((resolve) => this.#waiting.set(seq, resolve));
  }

  #wake(seq: number): void {
    const resolve = this.#waiting.get(seq);
    this.#waiting.delete(seq);
    if (resolve === undefined) this.#early.add(seq);
    else resolve(seq);
  }
}

async function managed(
  url: string,
  act: (manager: Awaited<ReturnType<typeof jetstreamManager>>) => Promise<unknown>,
): Promise<void> {
  const client = await connect({ servers: url });
  try {
    await act(await jetstreamManager(client));
  } finally {
    await client.close();
  }
}
