import { createHash } from 'node:crypto';
import type { Push } from '@botmesh/core/spi';
import { type RawPush, readPush } from './answers.js';
import type { PostgresClient } from './clients/client.js';
import { textList } from './requests.js';
import { fromWire, isLong, toWire } from './text.js';

export type Listener = (push: Push) => void;

/** A notification may have less than 8,000 bytes. */
const LONGEST = 7_900;

/** Brings the pushes of one shard to their replicas: those of this store at once, others by notifications. */
export class Pushes {
  readonly #place: string;
  readonly #listeners = new Map<string, Listener>();
  /** What was not sent yet, by channel. */
  #owed = new Map<string, string[]>();
  #sending: Promise<void> | undefined;

  /** `place` tells the mesh and the shard apart from all others of the database. */
  constructor(place: string) {
    this.#place = place;
  }

  async listen(
    client: PostgresClient,
    instance: string,
    listener: Listener,
    onGap: () => void,
  ): Promise<() => Promise<void>> {
    const former = this.#listeners.get(instance);
    this.#listeners.set(instance, listener);
    const forget = (): void => {
      if (this.#listeners.get(instance) === listener) this.#listeners.delete(instance);
    };
    try {
      const off =
        client.wakeUp === 'poll'
          ? undefined
          : await client.listen(this.#channelOf(toWire(instance)), (payload) => this.#heard(payload, listener), onGap);
      return async () => {
        forget();
        await off?.();
      };
    } catch (error) {
      forget();
      if (former !== undefined && !this.#listeners.has(instance)) this.#listeners.set(instance, former);
      throw error;
    }
  }

  /**
   * Sends what a step brought about, without waiting for it: the step is over, and what gets lost is brought by a heartbeat.
   * A ping goes the long way round, unless nobody listens anyway.
   */
  send(client: PostgresClient, pushes: readonly RawPush[]): void {
    const isPolling = client.wakeUp === 'poll';
    for (const push of pushes) {
      const [instance, kind] = push;
      const listener = this.#listeners.get(fromWire(instance));
      if (listener !== undefined && (isPolling || kind !== 'ping')) listener(readPush(push, keyOf));
      else if (!isPolling) this.#owe(push);
    }
    if (this.#owed.size > 0) this.#sending ??= this.#flush(client);
  }

  /** When all that was sent is on its way. */
  async sent(): Promise<void> {
    await this.#sending;
  }

  #owe(push: RawPush): void {
    const channel = this.#channelOf(push[0]);
    const payloads = this.#owed.get(channel) ?? [];
    const text = JSON.stringify(push.slice(1));
    const isTooLong = Buffer.byteLength(text) > LONGEST;
    payloads.push(isTooLong ? JSON.stringify(['look', push[2]]) : text);
    this.#owed.set(channel, payloads);
  }

  /** One statement for all that has gathered meanwhile. It writes nothing, so it waits for no disk. */
  async #flush(client: PostgresClient): Promise<void> {
    try {
      while (this.#owed.size > 0) {
        const channels: string[] = [];
        const payloads: string[] = [];
        for (const [channel, texts] of this.#owed) {
          for (const payload of packed(texts)) {
            channels.push(channel);
            payloads.push(payload);
          }
        }
        this.#owed = new Map();
        await client
          .call('select pg_catalog.count(pg_catalog.pg_notify(c, p)) from unnest($1::text[], $2::text[]) as t (c, p)', [
            textList(channels),
            textList(payloads),
          ])
          .catch(() => {});
      }
    } finally {
      this.#sending = undefined;
    }
  }

  #heard(payload: string, listener: Listener): void {
    for (const push of readPayload(payload)) listener(readPush(['', ...push], keyOf));
  }

  #channelOf(instance: string): string {
    const digest = createHash('sha256').update(`${this.#place}\n${instance}`).digest('hex');
    return `botmesh_${digest.slice(0, 40)}`;
  }
}

/** A key that has to be asked for is brought by a heartbeat. */
function keyOf(short: string): string | undefined {
  return isLong(short) ? undefined : fromWire(short);
}

/** As few payloads as can hold them. */
function packed(texts: readonly string[]): string[] {
  const payloads: string[] = [];
  let current = '';
  for (const text of texts) {
    if (current !== '' && Buffer.byteLength(current) + Buffer.byteLength(text) > LONGEST) {
      payloads.push(`[${current}]`);
      current = '';
    }
    current += current === '' ? text : `,${text}`;
  }
  return [...payloads, `[${current}]`];
}

type Told = RawPush extends readonly [string, ...infer Rest] ? Rest : never;

/** Nothing for what is no payload of this package: anybody may notify. */
function readPayload(payload: string): Told[] {
  try {
    const list = JSON.parse(payload) as unknown;
    return Array.isArray(list) ? list.filter((push): push is Told => Array.isArray(push) && KINDS.has(push[0])) : [];
  } catch {
    return [];
  }
}

const KINDS = new Set(['grant', 'look', 'replaced', 'ping']);
