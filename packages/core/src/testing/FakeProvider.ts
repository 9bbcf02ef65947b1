import { LifecycleError } from '../errors.js';
import type { IncomingMessage, Intake, Provider, Reply, SendContext } from '../providers/provider.js';

export interface FakeProviderOptions {
  name?: string;
  exclusive?: boolean;
  /** Whether `Bot.webhook` finds a webhook: it takes the body as a message, unsigned. */
  webhook?: boolean;
  /** Replies of several replicas in one list, in the order they were sent. Default: a list of its own. */
  sent?: SentReply[];
}

export interface SentReply extends Pick<SendContext, 'fence' | 'key'> {
  readonly chat: string;
  readonly text: string;
  readonly reply: Reply;
}

/** A platform for tests: `receive` plays a person who writes, `sent` is what they would see. */
export class FakeProvider implements Provider {
  readonly name: string;
  readonly exclusive: boolean;
  readonly sent: SentReply[];
  readonly webhook?: (request: Request, intake: Intake) => Promise<Response>;
  /** What was called, in order: `start`, `stop`, `close`. */
  readonly calls: string[] = [];
  /** Runs instead of a send that works. Throw to fail it, wait to hold it; `sent` grows when it resolves. */
  onSend: (chat: string, reply: Reply, context: SendContext) => Promise<void> | void = () => {};
  #intake: Intake | undefined;
  #watchers: { count: number; resolve: () => void }[] = [];

  constructor(options: FakeProviderOptions = {}) {
    this.name = options.name ?? 'fake';
    this.exclusive = options.exclusive ?? false;
    this.sent = options.sent ?? [];
    if (options.webhook) {
      this.webhook = async (request, intake) =>
        Response.json({ status: await intake((await request.json()) as IncomingMessage) });
    }
  }

  get isStarted(): boolean {
    return this.#intake !== undefined;
  }

  /** The texts sent to `chat`, in order. */
  textsTo(chat: string): string[] {
    return this.sent.filter((sent) => sent.chat === chat).map((sent) => sent.text);
  }

  /** A message arrives. Resolves when it is taken in. */
  receive(message: IncomingMessage): Promise<'accepted' | 'duplicate'> {
    if (this.#intake !== undefined) return this.#intake(message);
    return Promise.reject(new LifecycleError('not-started', 'This provider is not started.'));
  }

  /** Resolves when this provider has sent `count` replies. */
  async hasSent(count: number): Promise<void> {
    if (this.sent.length >= count) return;
    await new Promise<void>((resolve) => this.#watchers.push({ count, resolve }));
  }

  start(intake: Intake): Promise<void> | void {
    this.calls.push('start');
    this.#intake = intake;
  }

  stop(): Promise<void> | void {
    this.calls.push('stop');
    this.#intake = undefined;
  }

  close(): Promise<void> | void {
    this.calls.push('close');
  }

  async send(chat: string, reply: Reply, context: SendContext): Promise<void> {
    await this.onSend(chat, reply, context);
    const { fence, key } = context;
    this.sent.push({ chat, text: reply.text, reply, fence, key });
    for (const watcher of this.#watchers) if (this.sent.length >= watcher.count) watcher.resolve();
    this.#watchers = this.#watchers.filter(({ count }) => this.sent.length < count);
  }
}
