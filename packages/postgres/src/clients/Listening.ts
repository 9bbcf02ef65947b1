import { quoted } from '../quoting.js';
import { BackOff } from './BackOff.js';
import { judge } from './failures.js';
import type { Dialer, DialSettings, Link } from './link.js';
import { within } from './within.js';

interface Channel {
  readonly name: string;
  readonly onPayload: (payload: string) => void;
  readonly onGap: () => void;
}

/** More bytes than this a name of PostgreSQL does not have. */
const LONGEST_NAME = 63;

/** Hears channels on one connection, and makes it anew when it is lost. */
export class Listening {
  readonly #dialer: Dialer;
  readonly #settings: DialSettings;
  readonly #channels = new Map<string, Channel>();
  /** When the last statement of a connection is over. */
  readonly #asked = new WeakMap<Link, Promise<unknown>>();
  #link: Promise<Link> | undefined;
  #backOff: BackOff | undefined;

  constructor(dialer: Dialer, settings: DialSettings) {
    this.#dialer = dialer;
    this.#settings = settings;
  }

  /** @throws CoordinationUnavailableError, or what the server said */
  async listen(name: string, onPayload: Channel['onPayload'], onGap: () => void): Promise<() => Promise<void>> {
    if (Buffer.byteLength(name) > LONGEST_NAME)
      throw new RangeError(`a channel's name has more than ${LONGEST_NAME} bytes`);
    const former = this.#channels.get(name);
    // Whoever listens again hears nothing any more: the connection is dead, whatever the library believes.
    if (former !== undefined) this.#drop();
    const channel: Channel = { name, onPayload, onGap };
    this.#channels.set(name, channel);
    try {
      await this.#hear(channel);
    } catch (cause) {
      if (this.#channels.get(name) === channel) {
        if (former === undefined) this.#channels.delete(name);
        else this.#channels.set(name, former);
      }
      this.#mendOrEnd();
      throw judge(this.#dialer.where, cause).error;
    }
    return () => this.#end(channel);
  }

  close(): void {
    this.#channels.clear();
    this.#drop();
    this.#backOff?.stop();
  }

  /** On the connection there is, or else on a new one, together with all others. */
  async #hear(channel: Channel): Promise<void> {
    const link = this.#link;
    if (link === undefined) return this.#connect();
    await this.#ask(await link, listenTo(channel.name));
  }

  async #connect(): Promise<void> {
    const dialing = this.#dial();
    this.#link = dialing;
    // Whoever waits for it hears of it.
    dialing.catch(() => {});
    try {
      const link = await dialing;
      for (const name of [...this.#channels.keys()]) await this.#ask(link, listenTo(name));
    } catch (error) {
      if (this.#link === dialing) this.#drop();
      throw error;
    }
    if (this.#link !== dialing) throw new Error('the connection broke while it was made');
  }

  #dial(): Promise<Link> {
    const dialing: Promise<Link> = this.#dialer.dial({
      onNotification: (name, payload) => {
        if (this.#link === dialing) this.#channels.get(name)?.onPayload(payload);
      },
      onEnd: () => {
        if (this.#link !== dialing) return;
        this.#drop();
        this.#mendOrEnd();
      },
    });
    return dialing;
  }

  async #end(channel: Channel): Promise<void> {
    if (this.#channels.get(channel.name) !== channel) return;
    this.#channels.delete(channel.name);
    if (this.#channels.size === 0) {
      this.#drop();
      this.#backOff?.stop();
      return;
    }
    const link = await this.#link?.catch(() => undefined);
    // Not confirmed, it may still bring something: nobody listens any more.
    if (link !== undefined) await this.#ask(link, `unlisten ${quoted(channel.name)}`).catch(() => {});
  }

  #drop(): void {
    const link = this.#link;
    this.#link = undefined;
    link?.then(
      (one) => one.destroy(),
      () => {},
    );
  }

  #mendOrEnd(): void {
    if (this.#link !== undefined || this.#channels.size === 0 || this.#backOff !== undefined) return;
    void this.#mend();
  }

  /** The only loop that connects again; one runs at a time. Never rejects. */
  async #mend(): Promise<void> {
    const backOff = new BackOff(this.#settings.timeoutMs);
    this.#backOff = backOff;
    while (this.#channels.size > 0 && this.#link === undefined) {
      await backOff.wait();
      // Meanwhile somebody may have listened, or nobody does any more.
      if (this.#channels.size === 0 || this.#link !== undefined) break;
      await this.#connect().catch(() => {});
    }
    this.#backOff = undefined;
    for (const { onGap } of [...this.#channels.values()]) onGap();
  }

  /** One statement at a time, also where several listen at once; the time that it waits for others counts. */
  #ask(link: Link, text: string): Promise<unknown> {
    const before = this.#asked.get(link) ?? Promise.resolve();
    const asking = before.then(() => link.query(text));
    this.#asked.set(
      link,
      asking.catch(() => {}),
    );
    return within(this.#settings.timeoutMs, 'listening', asking);
  }
}

function listenTo(name: string): string {
  return `listen ${quoted(name)}`;
}
