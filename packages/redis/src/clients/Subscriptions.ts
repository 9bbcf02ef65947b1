import { BackOff } from './BackOff.js';
import type { DialSettings, Link, ListenerLink } from './link.js';
import { judge } from './replies.js';
import { within } from './within.js';

type Hears = (message: string) => void;

interface Channel {
  readonly name: string;
  readonly hears: Hears;
  /** The connection it is heard on, once there is one. */
  home: Home | undefined;
  /** Whether a loop tries to have it heard again. */
  isMending: boolean;
}

interface Home {
  readonly name: string;
  readonly listener: Promise<ListenerLink>;
}

export interface SubscriptionsOptions {
  readonly settings: DialSettings;
  readonly where: string;
  /** The link that commands go through now; throws while there is none. */
  readonly currentLink: () => Link;
  /** Channels are heard again that were not. */
  readonly onReconnect: () => void;
}

/** Hears channels, each on a connection for its home, and has them heard again when that is lost. */
export class Subscriptions {
  readonly #options: SubscriptionsOptions;
  readonly #channels = new Map<string, Channel>();
  readonly #homes = new Map<string, Home>();
  readonly #waits = new Set<BackOff>();
  #isClosed = false;

  constructor(options: SubscriptionsOptions) {
    this.#options = options;
  }

  async subscribe(name: string, hears: Hears): Promise<() => Promise<void>> {
    const former = this.#channels.get(name);
    // Whoever subscribes again hears nothing any more: the connection is dead, whatever the library believes.
    if (former?.home !== undefined) this.#drop(former.home);
    const channel: Channel = { name, hears, home: undefined, isMending: false };
    this.#channels.set(name, channel);
    try {
      await this.#attach(channel);
    } catch (cause) {
      this.#restore(channel, former);
      throw judge(this.#options.where, cause).error;
    }
    return () => this.#unsubscribe(channel);
  }

  close(): void {
    this.#isClosed = true;
    this.#channels.clear();
    for (const home of [...this.#homes.values()]) this.#drop(home);
    for (const wait of this.#waits) wait.stop();
  }

  #restore(failed: Channel, former: Channel | undefined): void {
    if (!this.#isWanted(failed)) return;
    if (former === undefined) {
      this.#channels.delete(failed.name);
      return;
    }
    this.#channels.set(former.name, former);
    this.#mend(former);
  }

  async #unsubscribe(channel: Channel): Promise<void> {
    if (!this.#isWanted(channel)) return;
    this.#channels.delete(channel.name);
    const { home } = channel;
    if (home === undefined) return;
    const isUsed = [...this.#channels.values()].some((other) => other.home === home);
    if (!isUsed) {
      this.#drop(home);
      return;
    }
    const { timeoutMs } = this.#options.settings;
    const gone = home.listener.then((listener) => listener.unsubscribe(channel.name));
    // Not confirmed, it may still send: nobody listens any more.
    await within(timeoutMs, 'unsubscribe', gone).catch(() => {});
  }

  async #attach(channel: Channel): Promise<void> {
    const home = this.#homeOf(channel.name);
    channel.home = home;
    try {
      const listener = await home.listener;
      await within(this.#options.settings.timeoutMs, 'subscribe', listener.subscribe(channel.name));
    } catch (error) {
      channel.home = undefined;
      this.#drop(home);
      throw error;
    }
    if (this.#homes.get(home.name) !== home) throw new Error('the connection broke while it was made');
  }

  #homeOf(channel: string): Home {
    const link = this.#options.currentLink();
    const name = link.homeOf(channel);
    const known = this.#homes.get(name);
    if (known !== undefined) return known;
    const listener = link.listen(name, {
      onMessage: (from, message) => {
        const heard = this.#channels.get(from);
        if (heard?.home === home) heard.hears(message);
      },
      onEnd: () => this.#drop(home),
    });
    // Whoever waits for it hears of it; when nobody does any more, it is no news.
    listener.catch(() => {});
    const home: Home = { name, listener };
    this.#homes.set(name, home);
    return home;
  }

  /** Closes a connection, and has its channels heard on another one. */
  #drop(home: Home): void {
    if (this.#homes.get(home.name) !== home) return;
    this.#homes.delete(home.name);
    home.listener.then(
      (listener) => listener.destroy(),
      () => {},
    );
    for (const channel of this.#channels.values()) if (channel.home === home) this.#mend(channel);
  }

  #mend(channel: Channel): void {
    channel.home = undefined;
    if (channel.isMending) return;
    channel.isMending = true;
    void this.#mendUntilHeard(channel);
  }

  /** Never rejects. */
  async #mendUntilHeard(channel: Channel): Promise<void> {
    const backOff = new BackOff(this.#options.settings.timeoutMs);
    this.#waits.add(backOff);
    while (this.#isWanted(channel) && channel.home === undefined) {
      await backOff.wait();
      if (!this.#isWanted(channel)) break;
      // The next round tries again, as long as it takes.
      await this.#attach(channel).catch(() => {});
    }
    this.#waits.delete(backOff);
    channel.isMending = false;
    if (this.#isWanted(channel)) this.#options.onReconnect();
  }

  #isWanted(channel: Channel): boolean {
    return !this.#isClosed && this.#channels.get(channel.name) === channel;
  }
}
