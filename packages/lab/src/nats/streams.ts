// What an operator does to streams, by the server's own API.
import { connect, createInbox, type NatsConnection } from '@nats-io/transport-node';

const TIMEOUT_MS = 10_000;
const NOT_FOUND = 10_059;

interface Answer {
  readonly error?: { readonly code: number; readonly err_code?: number; readonly description?: string };
}

/** Where the coordinators of a fleet keep their mesh. */
export const FLEET_STREAM = 'BOTMESH_faults_0';

/** Does something by a connection of its own. */
export async function asOperator<T>(
  urls: string | readonly string[],
  act: (client: NatsConnection) => Promise<T>,
): Promise<T> {
  const client = await connect({ servers: typeof urls === 'string' ? urls : [...urls], timeout: TIMEOUT_MS });
  try {
    return await act(client);
  } finally {
    await client.close();
  }
}

/** What a request of the JetStream API is answered, which may be an error. */
export async function askJetStream<T extends object>(
  client: NatsConnection,
  what: string,
  body: object = {},
): Promise<T & Answer> {
  const answer = await client.request(`$JS.API.${what}`, JSON.stringify(body), { timeout: TIMEOUT_MS });
  return answer.json<T & Answer>();
}

/** One that is not there is deleted. */
export async function deleteStream(client: NatsConnection, stream: string): Promise<void> {
  const { error } = await askJetStream(client, `STREAM.DELETE.${stream}`);
  if (error !== undefined && error.err_code !== NOT_FOUND) throw failed('deleted', stream, error);
}

/** Removes all that is in it; it stays. */
export async function purgeStream(client: NatsConnection, stream: string): Promise<void> {
  const { error } = await askJetStream(client, `STREAM.PURGE.${stream}`);
  if (error !== undefined) throw failed('purged', stream, error);
}

/** A copy of a stream, as `nats stream backup` makes it. */
export class StreamCopy {
  readonly #stream: string;
  readonly #about: { config: object; state: object };
  readonly #chunks: readonly Uint8Array[];

  private constructor(stream: string, about: { config: object; state: object }, chunks: readonly Uint8Array[]) {
    this.#stream = stream;
    this.#about = about;
    this.#chunks = chunks;
  }

  static async of(client: NatsConnection, stream: string): Promise<StreamCopy> {
    const inbox = createInbox();
    const chunks: Uint8Array[] = [];
    const whole = new Promise<void>((resolve) => {
      const subscription = client.subscribe(inbox, {
        callback: (_error, message) => {
          message.respond();
          if (message.data.length > 0) chunks.push(message.data.slice());
          else {
            subscription.unsubscribe();
            resolve();
          }
        },
      });
    });
    const wanted = { deliver_subject: inbox, no_consumers: true, chunk_size: 128 * 1024 };
    const { config, error, state } = await askJetStream<{ config: object; state: object }>(
      client,
      `STREAM.SNAPSHOT.${stream}`,
      wanted,
    );
    if (error !== undefined) throw failed('copied', stream, error);
    await whole;
    return new StreamCopy(stream, { config, state }, chunks);
  }

  /** Replicas that run meanwhile may make an empty one in its place. `onDeleted` is called whenever the present one is gone. */
  async putBack(client: NatsConnection, onDeleted: () => void = () => {}): Promise<void> {
    // Now and then the server finds the name taken at the end, though nobody makes the stream anew: then once more.
    for (let tries = 1; ; tries++) {
      await deleteStream(client, this.#stream);
      onDeleted();
      if (await this.#restore(client)) return;
      if (tries === 20) throw new Error(`${this.#stream} could not be put back.`);
    }
  }

  async #restore(client: NatsConnection): Promise<boolean> {
    const begun = await askJetStream<{ deliver_subject: string }>(
      client,
      `STREAM.RESTORE.${this.#stream}`,
      this.#about,
    );
    if (begun.error !== undefined) return false;
    const send = (data: Uint8Array | string) => client.request(begun.deliver_subject, data, { timeout: TIMEOUT_MS });
    for (const chunk of this.#chunks) await send(chunk);
    return (await send('')).json<Answer>().error === undefined;
  }
}

function failed(how: string, stream: string, error: object): Error {
  return new Error(`${stream} was not ${how}: ${JSON.stringify(error)}`);
}
