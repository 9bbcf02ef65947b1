import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { postSigned } from './EventsApi.js';
import {
  type ActionOf,
  actionOf,
  type CommandOf,
  callbackOf,
  commandOf,
  eventOf,
  type Marks,
  type MessageOf,
  optionsOf,
  type Payload,
  type PayloadType,
  textOf,
  type ViewOf,
  viewOf,
} from './payloads.js';
import { type SocketCounts, SocketMode } from './SocketMode.js';
import { type ApiCall, type Posted, refused, WebApi } from './WebApi.js';

export interface FakeSlackOptions {
  /** Default: a free one. */
  port?: number;
  /** Where payloads are posted to. Without it they go over Socket Mode. Several are taken in turn, as by a load balancer. */
  eventsUrl?: string | readonly string[];
  /** Signs what is posted. Default `signing-secret`. */
  signingSecret?: string;
  /** How long an app has to acknowledge, in milliseconds. Default 3,000, as at Slack. */
  ackMs?: number;
  /**
   * How long after a failed delivery an event is delivered again, in milliseconds, one number for each retry. Slack's own are
   * `[0, 60_000, 300_000]`, the default. What fails after the last of them is lost, as at Slack.
   */
  retryMs?: readonly number[];
  /** How often the other end of a socket is asked whether it is there, in milliseconds. 0, the default, is never. */
  pingMs?: number;
}

/** What became of what was sent to the app. */
export interface Delivered {
  /** Whether the app said in time that it has it. */
  readonly isAcknowledged: boolean;
  /** How often it was delivered. */
  readonly attempts: number;
  /** The body of the acknowledgement: an object over Socket Mode, an object or text over HTTP. */
  readonly answer: unknown;
  /** The status of the last answer over HTTP. */
  readonly status: number | undefined;
}

/** A message that a user wrote, and its delivery. */
export interface Said {
  readonly ts: string;
  readonly payload: Payload;
  readonly delivered: Promise<Delivered>;
}

/**
 * Slack's servers on this host, for tests: the Web API, Socket Mode and signed HTTP. Point a client at `apiUrl`. It delivers as
 * Slack does: again, under a new envelope id, what was not acknowledged in time. Unlike Slack it waits for a socket where
 * none is open, however long, and does not count that as an attempt. Tokens are any that begin as Slack's do: `xoxb-`, `xapp-`.
 */
export class FakeSlack {
  readonly #options: Required<Omit<FakeSlackOptions, 'port' | 'eventsUrl'>>;
  readonly #urls: readonly string[];
  readonly #server: Server;
  readonly #sockets: SocketMode;
  readonly #api: WebApi;
  readonly #triggers = new Map<string, number>();
  readonly #lost = new Map<string, number>();
  readonly #closing = new AbortController();
  #posts = 0;
  #lastTs = 0;
  #port = 0;

  private constructor(options: FakeSlackOptions) {
    const { eventsUrl = [], signingSecret = 'signing-secret', ackMs = 3_000, retryMs = [0, 60_000, 300_000] } = options;
    const { pingMs = 0 } = options;
    this.#options = { signingSecret, ackMs, retryMs, pingMs };
    this.#urls = typeof eventsUrl === 'string' ? [eventsUrl] : eventsUrl;
    this.#sockets = new SocketMode({ ackMs, pingMs });
    this.#api = new WebApi({
      connectionUrl: () => `ws://127.0.0.1:${this.#port}/link/?ticket=${this.#sockets.ticket()}`,
      nextTs: () => this.nextTs(),
      triggerAgeMs: (id) => {
        const sinceMs = this.#triggers.get(id);
        return sinceMs === undefined ? undefined : Date.now() - sinceMs;
      },
    });
    this.#server = createServer((request, response) => {
      // Who dies in the middle of a call gets no answer.
      this.#answer(request, response).catch(() => response.destroy());
    });
    this.#server.on('upgrade', (request, socket, head) => this.#sockets.upgrade(request, socket, head));
  }

  /** Resolves when it listens. */
  static async start(options: FakeSlackOptions = {}): Promise<FakeSlack> {
    const fake = new FakeSlack(options);
    fake.#server.listen(options.port ?? 0, '127.0.0.1');
    await once(fake.#server, 'listening');
    fake.#port = (fake.#server.address() as AddressInfo).port;
    return fake;
  }

  /** What `slackApiUrl` of a client is to be. */
  get apiUrl(): string {
    return `http://127.0.0.1:${this.#port}/api/`;
  }

  get signingSecret(): string {
    return this.#options.signingSecret;
  }

  /** Every call of the Web API, in order. */
  get calls(): readonly ApiCall[] {
    return this.#api.calls;
  }

  /** How many sockets there are and were. */
  get sockets(): SocketCounts {
    return this.#sockets.counts;
  }

  /** The messages of a channel, in order, and only those of one thread where it is named. */
  messages(channel: string, threadTs?: string): Posted[] {
    return this.#api.messages.filter(
      (each) => each.channel === channel && (threadTs === undefined || each.threadTs === threadTs),
    );
  }

  /** The texts of what the bot posted in a channel, in order. */
  posted(channel: string): string[] {
    return this.messages(channel)
      .filter(({ by }) => by === 'bot')
      .map(({ text }) => text);
  }

  /** A time as Slack writes it, greater than every earlier one. */
  nextTs(): string {
    this.#lastTs = Math.max(this.#lastTs + 1, Date.now() * 1_000);
    return (this.#lastTs / 1e6).toFixed(6);
  }

  // ── What users do ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** A user writes. `delivered` resolves when the app has acknowledged it, or will get it no more. */
  say(message: MessageOf): Said {
    const marks = this.#marks();
    const { channel, text, threadTs } = message;
    this.#api.messages.push({ channel, ts: marks.ts, text, threadTs, by: undefined });
    const payload = callbackOf(eventOf(message, marks), marks);
    return { ts: marks.ts, payload, delivered: this.deliver('events_api', payload) };
  }

  /** Something else happens: `event` is its inner part, and is wrapped. */
  event(event: Payload): Promise<Delivered> {
    return this.deliver('events_api', callbackOf(event, this.#marks()));
  }

  command(command: CommandOf): Promise<Delivered> {
    return this.deliver('slash_commands', commandOf(command, this.#marks()));
  }

  /** A user presses a button. */
  action(action: ActionOf): Promise<Delivered> {
    return this.deliver('interactive', actionOf(action, this.#marks()));
  }

  /** A user opens a menu whose options the app gives. */
  options(action: ActionOf): Promise<Delivered> {
    return this.deliver('interactive', optionsOf(action, this.#marks()));
  }

  /** A user submits a view. */
  submit(view: ViewOf): Promise<Delivered> {
    return this.deliver('interactive', viewOf(view, this.#marks()));
  }

  /**
   * Delivers a payload as it is, also one that was delivered before. Events that are not acknowledged in time are delivered
   * again; commands and interactions are not, as at Slack.
   */
  async deliver(type: PayloadType, payload: Payload): Promise<Delivered> {
    const pauses = type === 'events_api' ? this.#options.retryMs : [];
    let reason = '';
    for (let attempt = 0; ; attempt++) {
      const found = await this.#deliverOnce(type, payload, attempt, reason);
      const isOver = attempt >= pauses.length || this.#closing.signal.aborted;
      if (found.isAcknowledged || isOver) return { ...found, attempts: attempt + 1 };
      reason = found.status === undefined || found.status === 0 ? 'timeout' : 'http_error';
      await this.#pause(pauses[attempt]!);
    }
  }

  // ── Trouble ────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The next `times` calls of `method` are answered with 429 and Retry-After. */
  limit(method: string, retryAfterS: number, times = 1): void {
    const headers = { 'retry-after': String(retryAfterS) };
    this.#api.trouble(method, { status: 429, headers, body: refused('ratelimited') }, times);
  }

  /** The next `times` calls of `method` are refused with `error`. */
  refuse(method: string, error: string, times = 1): void {
    this.#api.trouble(method, { status: 200, headers: {}, body: refused(error) }, times);
  }

  /** The next `times` calls of `method` are done, and their answers are lost on the way. */
  loseAnswers(method: string, times = 1): void {
    this.#lost.set(method, (this.#lost.get(method) ?? 0) + times);
  }

  /** Tells every socket of a disconnect: `warning` that one will come, `refresh_requested` that it is time. */
  disconnect(reason: 'warning' | 'refresh_requested' | 'link_disabled'): void {
    this.#sockets.disconnect(reason);
  }

  /** Hears nothing from the sockets for `ms`: what they say, also that they close, comes later. */
  stallSockets(ms: number): void {
    this.#sockets.stall(ms);
  }

  /** Cuts every socket, without a word. */
  cutSockets(): void {
    this.#sockets.cut();
  }

  /** Counts the most sockets at one moment anew. */
  recountSockets(): void {
    this.#sockets.recount();
  }

  /** Ends everything. What was not acknowledged is given up. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#sockets.close();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #deliverOnce(
    type: PayloadType,
    payload: Payload,
    attempt: number,
    reason: string,
  ): Promise<Omit<Delivered, 'attempts'>> {
    if (this.#urls.length === 0) {
      const found = await this.#sockets.send({ type, payload, retryAttempt: attempt, retryReason: reason });
      const answer = typeof found === 'string' ? undefined : found.payload;
      return { isAcknowledged: answer !== undefined, answer, status: undefined };
    }
    const url = this.#urls[this.#posts++ % this.#urls.length]!;
    const { signingSecret, ackMs } = this.#options;
    const delivery = { url, signingSecret, ackMs, type, payload, retryNum: attempt, retryReason: reason };
    const { status, text } = await postSigned(delivery);
    return { isAcknowledged: status >= 200 && status < 300, answer: jsonOr(text), status };
  }

  #marks(): Marks {
    const triggerId = randomUUID();
    this.#triggers.set(triggerId, Date.now());
    return {
      ts: this.nextTs(),
      eventId: `Ev${randomUUID()}`,
      clientMsgId: randomUUID(),
      triggerId,
      responseUrl: `http://127.0.0.1:${this.#port}/response/${triggerId}`,
    };
  }

  /** Ends early when this closes. */
  #pause(ms: number): Promise<void> {
    return sleep(ms, undefined, { signal: this.#closing.signal }).catch(() => {});
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const args = argsOf(request.headers['content-type'] ?? '', await bodyOf(request));
    const path = new URL(request.url ?? '/', 'http://localhost').pathname;
    const isResponse = path.startsWith('/response/');
    const method = isResponse ? 'response_url' : path.replace(/^\/api\//, '');
    const bearer = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    const token = isResponse ? 'xoxb-none' : (bearer ?? textOf(args.token));
    const { status, headers, body } = this.#api.answer(method, args, token);
    const lost = this.#lost.get(method) ?? 0;
    if (lost > 0) {
      this.#lost.set(method, lost - 1);
      response.destroy();
      return;
    }
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

function argsOf(type: string, text: string): Payload {
  if (type.startsWith('application/x-www-form-urlencoded')) return Object.fromEntries(new URLSearchParams(text));
  const value = jsonOr(text);
  return typeof value === 'object' && value !== null ? (value as Payload) : {};
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
