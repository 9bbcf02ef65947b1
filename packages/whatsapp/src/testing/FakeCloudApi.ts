import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Answer, bytesOf, json, type NoAnswer, parsed, refusal, write } from './answers.js';
import { checkSending, refusalOf } from './cloud-rules.js';
import { FakeMedia } from './FakeMedia.js';
import { bodyOf, type Change, signedHeaders, wamid } from './payloads.js';

export interface FakeCloudApiOptions {
  /** Default `token`. */
  token?: string;
  /** Default `app secret`. */
  appSecret?: string;
  /** What one number may send in any second before 130429. Default: no limit. */
  perSecond?: number;
  /** What one number may send to one person in any time of `ms` before 131056. Default: no limit. */
  pair?: { count: number; ms: number };
  /** How long to wait before a call that was not answered 200 is made again. Default 50 ms; Meta waits longer each time. */
  redeliverMs?: number;
  /** How long a call may take. Default 2,000 ms. */
  patienceMs?: number;
}

/** What the next calls of the kind meet with. */
export interface Fault {
  /** The code of a refusal, with `httpStatus` and `retry-after`. */
  readonly code?: number;
  readonly httpStatus?: number;
  readonly retryAfterSeconds?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** In place of a refusal: never answer, cut the connection, or answer as a proxy does. */
  readonly instead?: 'silence' | 'cut' | 'proxy';
  /** Whether the message goes out all the same. Not for a refusal. Default false. */
  readonly isSent?: boolean;
  /** Only for messages to this person. */
  readonly to?: string;
  /** Default 1. */
  readonly times?: number;
}

/** A message that went out. */
export interface CloudSent {
  readonly id: string;
  readonly phoneNumberId: string;
  readonly to: string;
  /** What was posted. */
  readonly body: Readonly<Record<string, unknown>>;
  /** By this process's monotonic clock. */
  readonly atMs: number;
}

/** A webhook in this process. */
export type Webhook = (request: Request) => Promise<Response>;

/** How a webhook answered a call. */
export interface Delivered {
  readonly to: string;
  /** Undefined when it did not answer. */
  readonly status: number | undefined;
}

/** The Cloud API, as far as a bot uses it, on this machine: it takes what is sent, and delivers what people write. */
export class FakeCloudApi implements AsyncDisposable {
  /** For the option `apiUrl`. */
  readonly url: string;
  readonly token: string;
  readonly appSecret: string;
  /** What went out, in order. */
  readonly sent: CloudSent[] = [];
  /** The ids of what was marked as read, with whether it was told that somebody is typing. */
  readonly read: { id: string; isTyping: boolean }[] = [];
  /** How calls were answered, in order. */
  readonly delivered: Delivered[] = [];
  /** Refusals for too many messages. */
  readonly limited: number[] = [];
  /** Where calls go, one after the other: addresses, or `bot.webhook` of bots in this process. */
  webhooks: readonly (string | Webhook)[] = [];
  readonly #options: FakeCloudApiOptions;
  readonly #server: Server;
  readonly #media = new FakeMedia();
  readonly #closing = new AbortController();
  #faults: (Fault & { left: number })[] = [];
  #calls = 0;

  private constructor(options: FakeCloudApiOptions, server: Server) {
    this.#options = options;
    this.#server = server;
    this.token = options.token ?? 'token';
    this.appSecret = options.appSecret ?? 'app secret';
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  /** Listens on a free port of the loopback. */
  static async start(options: FakeCloudApiOptions = {}): Promise<FakeCloudApi> {
    const server = createServer();
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const fake = new FakeCloudApi(options, server);
    server.on('request', (request, response) => {
      const answering = fake.#answer(request).then((answer) => write(answer, response));
      answering.catch(() => response.destroy());
    });
    return fake;
  }

  /** Ends redeliveries, and every connection. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** The texts that went out to somebody, in order. */
  textsTo(to: string): string[] {
    return this.sent.filter((each) => each.to === to).map(({ body }) => textOf(body));
  }

  /** The next messages meet with it. Of several, the first that fits. */
  fail(fault: Fault): void {
    this.#faults.push({ ...fault, left: fault.times ?? 1 });
  }

  /** Forgets what is still to fail. */
  heal(): void {
    this.#faults = [];
  }

  /** Media as somebody would have sent it. Gives its id. */
  addMedia(data: Uint8Array, type: string): string {
    return this.#media.add(data, type);
  }

  /** Delivers what is told, in one call, again and again until the webhook answers 200. */
  async deliver(...changes: readonly Change[]): Promise<void> {
    return this.deliverBody(bodyOf(changes));
  }

  /** The same, of a body. */
  async deliverBody(body: string): Promise<void> {
    for (;;) {
      this.#closing.signal.throwIfAborted();
      const webhook = this.webhooks[this.#calls++ % this.webhooks.length];
      if (webhook !== undefined && (await this.post(webhook, body)) === 200) return;
      await new Promise((resolve) => setTimeout(resolve, this.#options.redeliverMs ?? 50));
    }
  }

  /** One call. Resolves with the status of the answer, or undefined when there was none in time. */
  async post(webhook: string | Webhook, body: string): Promise<number | undefined> {
    const limit = AbortSignal.timeout(this.#options.patienceMs ?? 2_000);
    const signal = AbortSignal.any([limit, this.#closing.signal]);
    const to = typeof webhook === 'string' ? webhook : 'http://bot/';
    const request = new Request(to, { method: 'POST', body, headers: signedHeaders(this.appSecret, body), signal });
    let status: number | undefined;
    try {
      const answer = await (typeof webhook === 'string' ? fetch(request) : webhook(request));
      await answer.body?.cancel();
      status = answer.status;
    } catch {
      // Not answered, so not taken in.
    }
    this.delivered.push({ to, status });
    return status;
  }

  /** What Meta asks when the webhook is set up. Gives the answer's status and text. */
  async verify(url: string, verifyToken: string, challenge: string): Promise<{ status: number; text: string }> {
    const query = new URLSearchParams({
      'hub.mode': 'subscribe',
      'hub.verify_token': verifyToken,
      'hub.challenge': challenge,
    });
    const answer = await fetch(`${url}?${query.toString()}`);
    return { status: answer.status, text: await answer.text() };
  }

  async #answer(request: IncomingMessage): Promise<Answer | NoAnswer> {
    const { pathname } = new URL(request.url ?? '/', this.url);
    const [version = '', node = '', edge] = pathname.slice(1).split('/');
    const body = await bytesOf(request);
    if (request.headers.authorization !== `Bearer ${this.token}`) return refusal(refusalOf(190));
    if (version === 'files') return this.#media.give(node);
    switch (`${request.method} ${edge ?? ''}`) {
      case 'POST messages':
        return this.#takeMessage(node, parsed(body));
      case 'POST media':
        return this.#media.take(body, request.headers['content-type'] ?? '');
      case 'GET ':
        return this.#media.describe(node, this.url);
      case 'DELETE ':
        return this.#media.delete(node);
      default:
        return refusal(refusalOf(100));
    }
  }

  #takeMessage(phoneNumberId: string, body: Readonly<Record<string, unknown>> | undefined): Answer | NoAnswer {
    if (body?.status === 'read') {
      this.read.push({ id: String(body.message_id), isTyping: body.typing_indicator !== undefined });
      return json(200, { success: true });
    }
    const wrong = checkSending(body);
    if (wrong !== undefined || body === undefined) return refusal(wrong ?? refusalOf(100));
    const message = { phoneNumberId, to: String(body.to ?? body.recipient), body };
    const fault = this.#nextFault(message.to);
    if (fault !== undefined) return this.#fail(fault, message);
    const code = this.#limitOf(message);
    if (code !== undefined) this.limited.push(code);
    return code === undefined ? this.#send(message) : refusal(refusalOf(code));
  }

  #send({ phoneNumberId, to, body }: Omit<CloudSent, 'id' | 'atMs'>): Answer {
    const id = wamid();
    this.sent.push({ id, phoneNumberId, to, body, atMs: performance.now() });
    const contacts = [{ input: to, wa_id: to.replace(/^\+/, '') }];
    return json(200, { messaging_product: 'whatsapp', contacts, messages: [{ id }] });
  }

  #fail(fault: Fault, message: Omit<CloudSent, 'id' | 'atMs'>): Answer | NoAnswer {
    const { instead, code = 131000, httpStatus, headers = {}, retryAfterSeconds, isSent = false } = fault;
    if (instead === undefined) {
      const pause = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
      return refusal(refusalOf(code, httpStatus), { ...headers, ...pause });
    }
    if (isSent) this.#send(message);
    return instead === 'proxy' ? { status: 502, type: 'text/html', body: '<h1>Bad Gateway</h1>' } : instead;
  }

  #nextFault(to: string): Fault | undefined {
    const fault = this.#faults.find((each) => each.left > 0 && (each.to === undefined || each.to === to));
    if (fault !== undefined) fault.left--;
    return fault;
  }

  #limitOf({ phoneNumberId, to }: Pick<CloudSent, 'phoneNumberId' | 'to'>): number | undefined {
    const { perSecond = Number.POSITIVE_INFINITY, pair } = this.#options;
    const nowMs = performance.now();
    const ofNumber = this.sent.filter((each) => each.phoneNumberId === phoneNumberId);
    const within = (ms: number) => ofNumber.filter(({ atMs }) => atMs > nowMs - ms);
    if (within(1_000).length >= perSecond) return 130429;
    const isTooMany = pair !== undefined && within(pair.ms).filter((each) => each.to === to).length >= pair.count;
    return isTooMany ? 131056 : undefined;
  }
}

function textOf(body: Readonly<Record<string, unknown>>): string {
  const content = body[String(body.type)] as { body?: unknown; caption?: unknown } | undefined;
  const found = content?.body ?? content?.caption;
  const text = typeof found === 'object' && found !== null ? (found as { text?: unknown }).text : found;
  return typeof text === 'string' ? text : '';
}
