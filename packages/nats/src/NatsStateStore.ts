import { createHash } from 'node:crypto';
import {
  BadInputError,
  ConfigError,
  CoordinationUnavailableError,
  checkOptionNames,
  checkStateKey,
  checkStateWrite,
  StaleFenceError,
  type StateStore,
  type StoredState,
} from '@botmesh/core/spi';
import { ApiError, judge, NO_STREAM, WRONG_LAST } from './clients/failures.js';
import { Link } from './clients/Link.js';
import { SharedLink } from './clients/SharedLink.js';
import { linkOptions, type NatsPlace, PLACE_NAMES } from './connection.js';
import { lastOf } from './log/snapshots.js';
import { ensureStream } from './log/stream.js';
import { checkNamespace, type Place, placeOf } from './namespace.js';

export interface NatsStateStoreOptions extends NatsPlace {
  /** As for `NatsCoordinator`; the same server will do. */
  namespace?: string;
  /**
   * How long the state of a chat is kept after it was last saved. Its fence is forgotten with it, so it has to be longer
   * than any turn. The same for all replicas. Default: for ever.
   */
  ttlMs?: number;
  /** How long to wait for an answer. Default 2,000. */
  timeoutMs?: number;
}

const NAMES = { ...PLACE_NAMES, namespace: true, ttlMs: true, timeoutMs: true } as const;

/** Shorter than this, a state could go while its turn runs. */
const MIN_TTL_MS = 60_000;
/** Where the newest state of so many chats lies is remembered, so that a save after a load asks for nothing. */
const REMEMBERED = 4096;
/** Each try but the last lost to somebody else's write of the same chat. */
const TRIES = 64;

/** What is known of a chat's state: the place of the message that has it, and its fence; place 0 when there is none. */
interface Known {
  readonly seq: number;
  readonly fence: number;
}

/** The state of chats in JetStream: one message for each chat, each write held against the fence of the last. */
export class NatsStateStore implements StateStore {
  readonly #link: SharedLink;
  readonly #place: Place;
  readonly #options: NatsStateStoreOptions;
  readonly #fixed: Readonly<Record<string, unknown>>;
  readonly #known = new Map<string, Known>();
  #isThere: Promise<unknown> | undefined;

  /** @throws ConfigError naming the option that cannot work */
  constructor(options: NatsStateStoreOptions) {
    checkOptionNames('NatsStateStore', options, NAMES);
    const { timeoutMs = 2_000 } = options;
    if (!(timeoutMs > 0)) throw new ConfigError('timeoutMs: expected a number of milliseconds above 0.');
    const wanted = linkOptions('NatsStateStore', options, { timeoutMs, connectTimeoutMs: 2 * timeoutMs });
    const max_age = checkTtl(options.ttlMs) * 1e6;
    this.#fixed = { discard: 'new', max_msgs_per_subject: 1, max_msgs: -1, max_msg_size: -1, max_age };
    this.#options = options;
    this.#place = placeOf(checkNamespace(options.namespace), 'state');
    this.#link = new SharedLink(() => Link.open(wanted));
  }

  async load(key: string): Promise<StoredState | null> {
    checkStateKey(key);
    return this.#using(async (link) => {
      const found = await this.#find(link, tokenOf(key));
      return found === undefined ? null : { value: JSON.parse(found.json) as unknown, fence: found.fence };
    });
  }

  async save(key: string, value: unknown, fence: number): Promise<void> {
    const json = checkStateWrite(key, value, fence);
    const payload = new TextEncoder().encode(`${fence}\n${json}`);
    const token = tokenOf(key);
    await this.#using(async (link) => {
      const most = link.info.max_payload - 1024;
      if (payload.length > most) {
        throw new BadInputError(
          `state: ${payload.length} bytes as JSON, and a message of this NATS server holds ${most}. Keep less, or raise max_payload.`,
        );
      }
      for (let tries = 1; ; tries++) {
        const remembered = this.#known.get(token);
        const known = remembered ?? (await this.#find(link, token)) ?? { seq: 0, fence: 0 };
        if (known.fence > fence) {
          // What is remembered may be gone by now.
          if (remembered === undefined) throw new StaleFenceError(fence, known.fence);
          this.#known.delete(token);
        } else if (await this.#put(link, token, payload, known, fence)) return;
        if (tries === TRIES) throw busy(link.where);
      }
    });
  }

  async delete(key: string): Promise<void> {
    checkStateKey(key);
    const token = tokenOf(key);
    this.#known.delete(token);
    await this.#using((link) =>
      link.ask(`STREAM.PURGE.${this.#place.stream}`, { filter: `${this.#place.prefix}.${token}` }),
    );
  }

  /** Closes what it opened. A later call opens it again. */
  async close(): Promise<void> {
    this.#isThere = undefined;
    this.#known.clear();
    await this.#link.release(this);
  }

  /** False when somebody else has written, or what was known is out of date. */
  async #put(link: Link, token: string, payload: Uint8Array, known: Known, fence: number): Promise<boolean> {
    try {
      const expected = { 'Nats-Expected-Last-Subject-Sequence': String(known.seq) };
      const seq = await link.put(`${this.#place.prefix}.${token}`, payload, expected);
      this.#remember(token, { seq, fence });
      return true;
    } catch (error) {
      this.#known.delete(token);
      if (error instanceof ApiError && WRONG_LAST.has(error.reason)) return false;
      throw error;
    }
  }

  async #find(link: Link, token: string): Promise<(Known & { readonly json: string }) | undefined> {
    const found = await lastOf(link, this.#place, token);
    if (found === undefined) return undefined;
    const text = new TextDecoder().decode(found.data);
    const end = text.indexOf('\n');
    const fence = Number(text.slice(0, end));
    this.#remember(token, { seq: found.seq, fence });
    return { seq: found.seq, fence, json: text.slice(end + 1) };
  }

  #remember(token: string, known: Known): void {
    this.#known.delete(token);
    this.#known.set(token, known);
    if (this.#known.size <= REMEMBERED) return;
    for (const oldest of this.#known.keys()) {
      this.#known.delete(oldest);
      return;
    }
  }

  async #using<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const { maxBytes, replicas } = this.#options;
    let where = 'NATS';
    try {
      const link = await this.#link.get(this);
      where = link.where;
      this.#isThere ??= ensureStream(link, this.#place, { replicas, maxBytes }, this.#fixed);
      await this.#isThere;
      return await work(link);
    } catch (error) {
      if (error instanceof ApiError && error.reason === NO_STREAM) this.#known.clear();
      if (!(error instanceof StaleFenceError) && !(error instanceof BadInputError)) this.#isThere = undefined;
      throw error instanceof SyntaxError ? error : judge(where, this.#place.stream, error);
    }
  }
}

/** What a subject may hold: short keys as they are, in base64; others, and those that are no whole text, by their hash. */
function tokenOf(key: string): string {
  const plain = Buffer.from(key);
  if (plain.length > 0 && plain.length <= 150 && plain.toString() === key) return `k${plain.toString('base64url')}`;
  return `h${createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('hex')}`;
}

function busy(where: string): CoordinationUnavailableError {
  return new CoordinationUnavailableError(
    'unavailable',
    `${where}: the state of this chat is being written all the time.`,
  );
}

function checkTtl(ttlMs: unknown): number {
  if (ttlMs === undefined) return 0;
  if (Number.isSafeInteger(ttlMs) && (ttlMs as number) >= MIN_TTL_MS) return ttlMs as number;
  throw new ConfigError(`ttlMs: expected a whole number of milliseconds from ${MIN_TTL_MS} up, or nothing.`);
}
