import { carryMs } from '@botmesh/core/spi';
import { BackOff } from './BackOff.js';
import type { Dialer, DialSettings, Link } from './link.js';
import { clauseOf, judge, unavailable } from './replies.js';
import { within } from './within.js';

/**
 * - `ready`: commands go through the link
 * - `renewing`: they still do, while a better one is made (a Cluster: its other nodes may be well)
 * - `lost`: they fail at once, while another link is made
 * - `closed`: they fail for good
 */
type State =
  | { readonly name: 'ready' | 'renewing'; readonly link: Link }
  | { readonly name: 'lost'; readonly cause: unknown }
  | { readonly name: 'closed' };

/** Sends commands through one link, and makes another one when that is lost, again and again until closed. */
export class Commands {
  readonly #dialer: Dialer;
  readonly #settings: DialSettings;
  readonly #onReconnect: () => void;
  readonly #backOff: BackOff;
  #state: State = { name: 'lost', cause: undefined };
  /** The length of all that has no answer yet: a command waits for those before it. */
  #underWay = 0;

  constructor(dialer: Dialer, settings: DialSettings, onReconnect: () => void) {
    this.#dialer = dialer;
    this.#settings = settings;
    this.#onReconnect = onReconnect;
    this.#backOff = new BackOff(settings.timeoutMs);
  }

  /** The first connection. Rejects with whatever came of it; then nothing is open and nothing is tried again. */
  async open(): Promise<void> {
    try {
      this.#use(await this.#dial());
    } catch (error) {
      this.#state = { name: 'closed' };
      throw error;
    }
  }

  /** @throws CoordinationUnavailableError while there is none */
  currentLink(): Link {
    const state = this.#state;
    const { where } = this.#dialer;
    switch (state.name) {
      case 'ready':
      case 'renewing':
        return state.link;
      case 'lost':
        throw unavailable(`Not connected to ${where}${why(state.cause)}; trying again.`, state.cause);
      case 'closed':
        throw unavailable(`The connection to ${where} was closed.`);
    }
  }

  async send(args: readonly string[], key?: string): Promise<unknown> {
    const link = this.currentLink();
    const length = lengthOf(args);
    this.#underWay += length;
    const limitMs = this.#settings.timeoutMs + carryMs(this.#underWay);
    try {
      return await within(limitMs, args[0] ?? 'command', link.send(args, key));
    } catch (cause) {
      const { error, isLinkBroken } = judge(this.#dialer.where, cause);
      if (isLinkBroken) this.#giveUp(link, cause);
      throw error;
    } finally {
      this.#underWay -= length;
    }
  }

  close(): void {
    const state = this.#state;
    this.#state = { name: 'closed' };
    this.#backOff.stop();
    if (state.name === 'ready' || state.name === 'renewing') state.link.destroy();
  }

  /** Makes another link in the place of this one, unless that is done or under way. */
  #giveUp(link: Link, cause: unknown): void {
    const state = this.#state;
    if (state.name !== 'ready' || state.link !== link) return;
    if (this.#dialer.isCluster) {
      this.#state = { name: 'renewing', link };
    } else {
      this.#state = { name: 'lost', cause };
      link.destroy();
    }
    void this.#renew();
  }

  #ended(link: Link): void {
    const state = this.#state;
    if ((state.name !== 'ready' && state.name !== 'renewing') || state.link !== link) return;
    this.#state = { name: 'lost', cause: undefined };
    link.destroy();
    if (state.name === 'ready') void this.#renew();
  }

  /** The only loop that connects; one runs at a time. Never rejects. */
  async #renew(): Promise<void> {
    for (;;) {
      await this.#backOff.wait();
      if (this.#state.name === 'closed') return;
      try {
        const link = await this.#dial();
        this.#replace(link);
        return;
      } catch (cause) {
        if (this.#state.name === 'lost') this.#state = { name: 'lost', cause };
      }
    }
  }

  #replace(link: Link): void {
    const former = this.#state;
    if (former.name === 'closed') {
      link.destroy();
      return;
    }
    this.#use(link);
    // What is under way through it may still be answered.
    if (former.name === 'renewing') setTimeout(() => former.link.destroy(), this.#settings.timeoutMs);
    this.#onReconnect();
  }

  #use(link: Link): void {
    this.#backOff.succeeded();
    this.#state = { name: 'ready', link };
  }

  async #dial(): Promise<Link> {
    // It may end before the promise of it is heard here.
    let link: Link | undefined;
    let isEnded = false;
    link = await this.#dialer.dial(() => {
      isEnded = true;
      if (link !== undefined) this.#ended(link);
    });
    if (!isEnded) return link;
    link.destroy();
    throw new Error('the connection broke while it was made');
  }
}

/** Why there is no link. Undefined: it ended, and nothing was said. */
function why(cause: unknown): string {
  return cause === undefined ? '' : ` (${clauseOf(cause)})`;
}

/** Of all parts of a command, in UTF-16 units. */
export function lengthOf(args: readonly string[]): number {
  return args.reduce((sum, arg) => sum + arg.length, 0);
}
