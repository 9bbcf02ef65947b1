import type { NatsMessage, NatsSubscription } from '../clients/client.js';
import type { Link } from '../clients/Link.js';
import type { Read } from './Copy.js';

export interface FeedOptions {
  readonly link: Link;
  readonly stream: string;
  /** The first message to bring. */
  readonly from: number;
  /** How often the server says that there is nothing new. */
  readonly heartbeatMs: number;
  readonly onMessage: (message: Read) => void;
  /** Something did not arrive, or nothing arrives any more. Told once, and nothing after it. */
  readonly onBroken: () => void;
}

/** The messages of a stream, in order and without a gap: an ephemeral consumer that the server pushes from. */
export class Feed {
  readonly #options: FeedOptions;
  #subscription: NatsSubscription | undefined;
  #delivered = 0;
  #heardAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  private constructor(options: FeedOptions) {
    this.#options = options;
  }

  static async start(options: FeedOptions): Promise<Feed> {
    const feed = new Feed(options);
    await feed.#begin();
    return feed;
  }

  stop(): void {
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#subscription?.unsubscribe();
  }

  async #begin(): Promise<void> {
    const { from, heartbeatMs, link, stream } = this.#options;
    const inbox = link.inbox();
    this.#subscription = link.subscribe(inbox, (message) => this.#hear(message));
    const nanoseconds = 1e6;
    try {
      await link.ask(`CONSUMER.CREATE.${stream}`, {
        stream_name: stream,
        config: {
          deliver_subject: inbox,
          deliver_policy: 'by_start_sequence',
          opt_start_seq: from,
          ack_policy: 'none',
          max_deliver: 1,
          replay_policy: 'instant',
          flow_control: true,
          idle_heartbeat: Math.round(heartbeatMs * nanoseconds),
          mem_storage: true,
          num_replicas: 1,
        },
      });
    } catch (error) {
      this.stop();
      throw error;
    }
    this.#timer = setInterval(() => this.#watch(), heartbeatMs).unref();
  }

  #watch(): void {
    if (performance.now() - this.#heardAtMs < 3 * this.#options.heartbeatMs) return;
    // After a blocked event loop what lies in the socket has not been read yet.
    setImmediate(() => {
      if (performance.now() - this.#heardAtMs >= 3 * this.#options.heartbeatMs) this.#break();
    });
  }

  #break(): void {
    if (this.#isOver) return;
    this.stop();
    this.#options.onBroken();
  }

  #hear(message: NatsMessage): void {
    if (this.#isOver) return;
    this.#heardAtMs = performance.now();
    const { headers, reply } = message;
    if (headers?.code === 100) {
      this.#answer(message);
      return;
    }
    if (headers !== undefined && headers.code >= 400) {
      this.#break();
      return;
    }
    const place = placeIn(reply ?? '');
    if (place === undefined || place.delivered !== this.#delivered + 1) {
      this.#break();
      return;
    }
    this.#delivered = place.delivered;
    const subject = message.subject.slice(message.subject.lastIndexOf('.') + 1);
    this.#options.onMessage({ seq: place.seq, atUs: place.atUs, subject, data: message.data });
  }

  /** Flow control wants to know how far we are; a heartbeat says whether something was sent that did not arrive. */
  #answer({ headers, reply }: NatsMessage): void {
    const stalled = headers?.get('Nats-Consumer-Stalled') ?? '';
    if (reply !== undefined && reply !== '') this.#options.link.respond(reply);
    else if (stalled !== '') this.#options.link.respond(stalled);
    const last = headers?.get('Nats-Last-Consumer') ?? '';
    if (last !== '' && Number(last) > this.#delivered) this.#break();
  }
}

/** `$JS.ACK.[domain.account.]stream.consumer.deliveries.seq.delivered.nanoseconds.pending[.token]` */
function placeIn(reply: string): { seq: number; delivered: number; atUs: number } | undefined {
  const tokens = reply.split('.');
  const at = tokens.length === 9 ? 0 : 2;
  const seq = Number(tokens[at + 5]);
  const delivered = Number(tokens[at + 6]);
  // Nanoseconds are more than a number holds.
  const atUs = Number(tokens[at + 7]?.slice(0, -3));
  return Number.isSafeInteger(seq) && Number.isSafeInteger(delivered) ? { seq, delivered, atUs } : undefined;
}
