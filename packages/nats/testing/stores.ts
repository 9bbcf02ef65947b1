// For the tests of this package: stores on a server whose time and identity are told instead of asked.
import { randomUUID } from 'node:crypto';
import type { StoreLab } from '@botmesh/core/testing';
import { connect, createInbox, type NatsConnection } from '@nats-io/transport-node';
import { Link } from '../src/clients/Link.js';
import { SharedLink } from '../src/clients/SharedLink.js';
import { type Birth, LOG_VERSION } from '../src/log/entry.js';
import type { Told } from '../src/log/Log.js';
import { ensureStream } from '../src/log/stream.js';
import { NatsStore } from '../src/NatsStore.js';
import { type Place, placeOf } from '../src/namespace.js';
import { NatsServer } from './lab.js';

/** When virtual time begins: whenever will do. */
export const START_MS = 1_750_000_000_000;

export const TIMEOUT_MS = 10_000;

/** The server of one test file: that of BOTMESH_NATS_URL, or one of its own. */
export async function openServer(): Promise<{ readonly url: string; close(): Promise<void> }> {
  const given = process.env.BOTMESH_NATS_URL;
  if (given !== undefined) return { url: given, close: async () => {} };
  const server = await NatsServer.start();
  return { url: server.url, close: () => server[Symbol.asyncDispose]() };
}

/** A connection that tests share, and what they do with it to streams. */
export class Desk implements AsyncDisposable {
  readonly client: NatsConnection;
  readonly link: Link;

  private constructor(client: NatsConnection, link: Link) {
    this.client = client;
    this.link = link;
  }

  static async open(url: string): Promise<Desk> {
    const client = await connect({ servers: url, maxReconnectAttempts: -1 });
    const times = { timeoutMs: TIMEOUT_MS, connectTimeoutMs: TIMEOUT_MS };
    const link = await Link.open({ client, connection: undefined, domain: undefined, servers: [], ...times });
    return new Desk(client, link);
  }

  /** The connection, which nobody else closes. */
  shared(): SharedLink {
    return new SharedLink(async () => this.link);
  }

  /** Makes a mesh that knows its server from the beginning, as the reference does: nothing has to be waited out. */
  async bear(place: Place, told?: Told): Promise<void> {
    const fixed = { discard: 'new', deny_delete: true };
    await ensureStream(this.link, place, { replicas: undefined, maxBytes: undefined }, fixed);
    const server = told?.server ?? this.link.server;
    const birth: Birth = { version: LOG_VERSION, id: randomUUID(), isFresh: true, server, toldMs: told?.nowMs ?? null };
    await this.link.put(`${place.prefix}.born`, new TextEncoder().encode(JSON.stringify(birth)));
  }

  async remove({ stream }: Place): Promise<void> {
    await this.link.ask(`STREAM.DELETE.${stream}`).catch(() => {});
  }

  /**
   * Keeps a copy of a stream, as `nats stream backup` does. The returned function puts it back; replicas that run meanwhile
   * may make an empty one in its place.
   */
  async copy(place: Place): Promise<() => Promise<void>> {
    const inbox = createInbox();
    const chunks: Uint8Array[] = [];
    const whole = new Promise<void>((resolve) => {
      const subscription = this.client.subscribe(inbox, {
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
    const { config, state } = await this.link.ask<{ config: object; state: object }>(
      `STREAM.SNAPSHOT.${place.stream}`,
      wanted,
    );
    await whole;
    return async () => {
      // Now and then the server finds the name taken at the end, though nobody makes the stream anew: then once more.
      for (let tries = 1; !(await this.#isRestored(place, { config, state }, chunks)); tries++) {
        if (tries === 20) throw new Error(`${place.stream} could not be put back.`);
      }
    };
  }

  async #isRestored(place: Place, request: { config: object; state: object }, chunks: Uint8Array[]): Promise<boolean> {
    await this.remove(place);
    const restore = `STREAM.RESTORE.${place.stream}`;
    const { deliver_subject } = await this.link.ask<{ deliver_subject: string }>(restore, request);
    for (const chunk of chunks) await this.client.request(deliver_subject, chunk, { timeout: TIMEOUT_MS });
    const answer = await this.client.request(deliver_subject, '', { timeout: TIMEOUT_MS });
    return answer.json<{ error?: object }>().error === undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

/** An empty store in virtual time. */
export function toldLab(desk: Desk): () => Promise<StoreLab> {
  return async () => {
    const place = placeOf(randomUUID(), 0);
    const told = { nowMs: START_MS, server: '1' };
    await desk.bear(place, told);
    const store = new NatsStore({
      link: desk.shared(),
      place,
      wish: { replicas: undefined, maxBytes: undefined },
      timeoutMs: TIMEOUT_MS,
      told: () => told,
    });
    const restart = (): void => {
      told.server = String(Number(told.server) + 1);
    };
    // Whoever had to read anew tells its replicas to look: a hint that the reference has no cause for.
    let isAway = false;
    const again = async (): Promise<void> => {
      isAway = true;
      await store.log.again();
      isAway = false;
    };
    const subscribe: NatsStore['subscribe'] = (instance, listener) =>
      store.subscribe(instance, (push) => {
        if (!isAway) listener(push);
      });
    return {
      store: new Proxy(store, {
        get: (target, name) => {
          if (name === 'subscribe') return subscribe;
          const value = Reflect.get(target, name, target) as unknown;
          return typeof value === 'function' ? value.bind(target) : value;
        },
      }),
      moveClock: (byMs) => {
        told.nowMs += byMs;
      },
      restart,
      wipe: async () => {
        await desk.remove(place);
        restart();
        await again();
      },
      snapshot: async () => {
        const putBack = await desk.copy(place);
        return async () => {
          await putBack();
          restart();
          await again();
        };
      },
      close: async () => {
        await store.close();
        await desk.remove(place);
      },
    };
  };
}
