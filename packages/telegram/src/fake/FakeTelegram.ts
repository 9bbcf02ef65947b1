import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { ApiError, badRequest, conflict } from './api-error.js';
import { type FakeFile, FakeFiles } from './FakeFiles.js';
import { type ReadCall, readCall } from './read-call.js';
import { type Update, UpdateQueue } from './UpdateQueue.js';
import { type Delivery, WebhookDelivery } from './WebhookDelivery.js';

export interface FakeTelegramOptions {
  /** Default `100:test`. What stands before the colon is the bot's id. */
  readonly token?: string;
  /** The pause before a webhook's second delivery, in milliseconds; doubled each time. Default 1,000, as Telegram's. */
  readonly redeliverMs?: number;
}

/** A call that a bot made, but for those by which it receives. */
export interface Call {
  readonly method: string;
  readonly payload: Readonly<Record<string, unknown>>;
  /** Milliseconds on the process's monotonic clock. */
  readonly atMs: number;
  /** Of the answer: 200, or an error's. */
  readonly status: number;
}

export interface Refusal {
  /** Default: every method but those by which a bot receives. */
  readonly method?: string;
  /** Default: every chat. */
  readonly chat?: number;
  /** How many calls are refused. Default 1. */
  readonly times?: number;
}

const RECEIVING = ['getMe', 'getUpdates', 'setWebhook', 'deleteWebhook', 'getWebhookInfo'];
const LONGEST_TEXT = 4_096;

interface PlannedRefusal {
  readonly of: Refusal;
  readonly error: ApiError;
  left: number;
}

/**
 * A Telegram Bot API for tests, on a free port of this host. It plays the people, too: `say` writes to the bot, and what the
 * bot did is in `calls`. As the real one it gives updates to one poller at a time, and ends the earlier of two with 409.
 *
 * It knows no rights and no members: every chat exists, and takes everything.
 */
export class FakeTelegram implements AsyncDisposable {
  readonly token: string;
  /** Every call in order, but for those by which a bot receives. */
  readonly calls: Call[] = [];
  /** How many answers were 409. */
  conflicts = 0;
  readonly #options: FakeTelegramOptions;
  readonly #server: Server;
  readonly #queue = new UpdateQueue();
  readonly #refusals: PlannedRefusal[] = [];
  readonly #files = new FakeFiles();
  readonly #lost = new Map<string, number>();
  readonly #migrated = new Map<number, number>();
  readonly #deliveries: Delivery[] = [];
  #delivery: WebhookDelivery | undefined;
  #messages = 0;
  #watchers: (() => void)[] = [];

  private constructor(options: FakeTelegramOptions) {
    this.#options = options;
    this.token = options.token ?? '100:test';
    this.#server = createServer((request, response) => void this.#answer(request, response));
  }

  static async start(options: FakeTelegramOptions = {}): Promise<FakeTelegram> {
    const fake = new FakeTelegram(options);
    fake.#server.listen(0, '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  async stop(): Promise<void> {
    this.#delivery?.stop();
    this.#server.closeAllConnections();
    if (!this.#server.listening) return;
    this.#server.close();
    await once(this.#server, 'close');
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  /** Where clients find it: grammY's `client: { apiRoot }`, Telegraf's `telegram: { apiRoot }`. */
  get apiRoot(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get me(): { id: number; is_bot: true; first_name: string; username: string } & Record<string, unknown> {
    return {
      id: Number(this.token.split(':')[0]),
      is_bot: true,
      first_name: 'Test',
      username: 'test_bot',
      can_join_groups: true,
      can_read_all_group_messages: false,
      supports_inline_queries: false,
      can_connect_to_business: false,
      has_main_web_app: false,
    };
  }

  // ── People ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** Somebody writes. A chat below 0 is a group; its writer is the person `from`, by default person 1. */
  say(chat: number, text: string, from = chat > 0 ? chat : 1): Update | undefined {
    return this.update({ message: this.#message(chat, { from: person(from), text, ...commandIn(text) }) });
  }

  /** Somebody presses a button under one of the bot's messages. */
  press(chat: number, data: string, from = chat > 0 ? chat : 1): Update | undefined {
    const message = this.#message(chat, { from: this.me, text: 'buttons' });
    const id = `${++this.#messages}`;
    return this.update({ callback_query: { id, from: person(from), chat_instance: `${chat}`, data, message } });
  }

  /** Somebody's file, to be named in an update: gives its `file_id`. */
  addFile(name: string, data: Uint8Array): string {
    return this.#files.add(name, data);
  }

  /** Any update: `{ edited_message: … }`. Undefined for a kind that the bot did not ask for. */
  update(content: Readonly<Record<string, unknown>>): Update | undefined {
    const update = this.#queue.add(content);
    this.#delivery?.wake();
    return update;
  }

  // ── What happened ──────────────────────────────────────────────────────────────────────────────────────────────────

  /** The texts that a chat was sent, in order. */
  textsTo(chat: number): string[] {
    return this.calls
      .filter(({ method, status, payload }) => method === 'sendMessage' && status === 200 && +payload.chat_id! === chat)
      .map(({ payload }) => textOf(payload.text));
  }

  /** The files that were uploaded, by their `file_id`. */
  get files(): ReadonlyMap<string, FakeFile> {
    return this.#files.kept;
  }

  /** How many polls are open now. */
  get polling(): number {
    return this.#queue.polling;
  }

  /** How many polls were open at once, at most. Above 1, somebody was cut off with 409. */
  get mostPolling(): number {
    return this.#queue.mostPolling;
  }

  /** How many updates are not confirmed. */
  get pending(): number {
    return this.#queue.waiting.length;
  }

  /** Every attempt to deliver to a webhook, in order. */
  get deliveries(): readonly Delivery[] {
    return [...this.#deliveries, ...(this.#delivery?.deliveries ?? [])];
  }

  /** Resolves when `holds`; looks after every call, and every few milliseconds. */
  async until(what: string, holds: (fake: this) => boolean, limitMs = 20_000): Promise<void> {
    const lastMs = performance.now() + limitMs;
    while (!holds(this)) {
      if (performance.now() > lastMs) {
        const last = this.calls.slice(-5).map((call) => JSON.stringify(call));
        throw new Error(
          `After ${limitMs} ms not so: ${what}. ${this.pending} updates wait. The last calls:\n${last.join('\n')}`,
        );
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, 10);
        this.#watchers.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  // ── Faults ─────────────────────────────────────────────────────────────────────────────────────────────────────────

  /** The next calls are told to come again later: 429 with `retry_after`. */
  limit(retryAfterSeconds: number, of: Refusal = {}): void {
    const error = new ApiError(429, `Too Many Requests: retry after ${retryAfterSeconds}`, {
      retry_after: retryAfterSeconds,
    });
    this.#refusals.push({ of, error, left: of.times ?? 1 });
  }

  /** The next calls fail with this status. */
  refuse(status: number, description: string, of: Refusal = {}): void {
    this.#refusals.push({ of, error: new ApiError(status, description), left: of.times ?? 1 });
  }

  /** The next `times` calls of `method` are done, and their answers are lost on the way. */
  loseAnswers(method: string, times = 1): void {
    this.#lost.set(method, (this.#lost.get(method) ?? 0) + times);
  }

  /** The group becomes a supergroup: the bot hears of it, and calls that name the old chat are refused from now on. */
  migrate(from: number, to: number): void {
    this.#migrated.set(from, to);
    this.update({ message: this.#message(from, { from: person(1), migrate_to_chat_id: to }) });
    this.update({ message: this.#message(to, { from: person(1), migrate_from_chat_id: from }) });
  }

  // ── The API ────────────────────────────────────────────────────────────────────────────────────────────────────────

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const [, path] = new RegExp(`^/file/bot${this.token}/(.+)$`).exec(request.url ?? '') ?? [];
    const file = path === undefined ? undefined : this.#files.at(path);
    if (file !== undefined) return void response.writeHead(200).end(file);
    const { status, body, method = '' } = await this.#respond(request, gone.signal);
    if (status === 409) this.conflicts += 1;
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    if (this.#isLost(method)) response.destroy();
    else response.writeHead(status, headers).end(JSON.stringify(body));
    for (const watcher of this.#watchers.splice(0)) watcher();
  }

  #isLost(method: string): boolean {
    const left = this.#lost.get(method) ?? 0;
    if (left > 0) this.#lost.set(method, left - 1);
    return left > 0;
  }

  async #respond(
    request: IncomingMessage,
    gone: AbortSignal,
  ): Promise<{ status: number; body: object; method?: string }> {
    try {
      const call = await readCall(request);
      if (call === undefined) throw new ApiError(404, 'Not Found');
      if (call.token !== this.token) throw new ApiError(401, 'Unauthorized');
      const { method } = call;
      return {
        status: 200,
        body: { ok: true, result: await this.#run(method, call.payload, call.files, gone) },
        method,
      };
    } catch (error) {
      const known = error instanceof ApiError ? error : badRequest("can't parse the call");
      return { status: known.status, body: known.body };
    }
  }

  async #run(
    method: string,
    payload: Readonly<Record<string, unknown>>,
    files: ReadCall['files'] = {},
    gone?: AbortSignal,
  ): Promise<unknown> {
    if (RECEIVING.includes(method)) {
      this.#refuseAsPlanned(method, payload);
      return this.#receive(method, payload, gone ?? new AbortController().signal);
    }
    const atMs = performance.now();
    try {
      this.#refuseAsPlanned(method, payload);
      const result = method === 'getFile' ? this.#files.about(payload.file_id) : this.#send(method, payload);
      if (Object.keys(files).length > 0) Object.assign(result as object, await this.#files.take(files));
      this.calls.push({ method, payload, atMs, status: 200 });
      return result;
    } catch (error) {
      this.calls.push({ method, payload, atMs, status: (error as ApiError).status });
      throw error;
    }
  }

  #refuseAsPlanned(method: string, payload: Readonly<Record<string, unknown>>): void {
    const planned = this.#refusals.find(({ of, left }) => {
      if (left === 0) return false;
      if (of.method === undefined ? RECEIVING.includes(method) : of.method !== method) return false;
      return of.chat === undefined || of.chat === Number(payload.chat_id);
    });
    if (planned === undefined) return;
    planned.left -= 1;
    throw planned.error;
  }

  #receive(method: string, payload: Readonly<Record<string, unknown>>, gone: AbortSignal): unknown {
    switch (method) {
      case 'getUpdates':
        if (this.#delivery !== undefined)
          throw conflict(
            "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
          );
        return this.#queue.poll(payload, gone);
      case 'setWebhook':
        return this.#setWebhook(payload);
      case 'deleteWebhook':
        return this.#setWebhook({ ...payload, url: '' });
      case 'getWebhookInfo':
        return this.#webhookInfo();
      default:
        return this.me;
    }
  }

  #setWebhook(payload: Readonly<Record<string, unknown>>): true {
    const url = textOf(payload.url);
    if (String(payload.drop_pending_updates) === 'true') this.#queue.dropAll();
    this.#queue.allow(payload.allowed_updates);
    this.#deliveries.push(...(this.#delivery?.deliveries ?? []));
    this.#delivery?.stop();
    this.#delivery = undefined;
    if (url === '') return true;
    if (!URL.canParse(url)) throw badRequest('bad webhook: invalid URL');
    this.#queue.interrupt('terminated by setWebhook request');
    const webhook = {
      url,
      secretToken: payload.secret_token === undefined ? undefined : textOf(payload.secret_token),
      maxConnections: Number(payload.max_connections ?? 40),
    };
    const run = (method: string, args: Record<string, unknown>): void => void this.#run(method, args).catch(() => {});
    this.#delivery = new WebhookDelivery(webhook, this.#queue, this.#options.redeliverMs ?? 1_000, run);
    this.#delivery.wake();
    return true;
  }

  #webhookInfo(): object {
    const { webhook, lastError } = this.#delivery ?? {};
    return {
      url: webhook?.url ?? '',
      has_custom_certificate: false,
      pending_update_count: this.pending,
      ...(webhook === undefined ? {} : { max_connections: webhook.maxConnections }),
      ...(this.#queue.allowed === undefined ? {} : { allowed_updates: this.#queue.allowed }),
      ...(lastError === undefined ? {} : { last_error_message: lastError }),
    };
  }

  /** What the bot does to chats. Methods that are not known here are answered with true. */
  #send(method: string, payload: Readonly<Record<string, unknown>>): unknown {
    const chat = Number(payload.chat_id);
    const movedTo = this.#migrated.get(chat);
    if (movedTo !== undefined) {
      throw new ApiError(400, 'Bad Request: group chat was upgraded to a supergroup chat', {
        migrate_to_chat_id: movedTo,
      });
    }
    if (method === 'sendMessage' || method === 'editMessageText') checkText(payload.text);
    if (method === 'editMessageText')
      return this.#message(chat, { from: this.me, text: payload.text }, payload.message_id);
    if (!/^(send(?!ChatAction)|copy|forward)/.test(method)) return true;
    if (payload.chat_id === undefined) throw badRequest('chat_id is empty');
    return this.#message(chat, { from: this.me, ...(payload.text === undefined ? {} : { text: payload.text }) });
  }

  #message(chat: number, content: object, id?: unknown): object {
    const message_id = id === undefined ? ++this.#messages : Number(id);
    const of =
      chat > 0
        ? { id: chat, type: 'private', first_name: `Person ${chat}` }
        : { id: chat, type: groupType(chat), title: `Group ${chat}` };
    return { message_id, date: Math.floor(Date.now() / 1000), chat: of, ...content };
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function checkText(text: unknown): void {
  if (typeof text !== 'string' || text.trim() === '') throw badRequest('message text is empty');
  if (text.length > LONGEST_TEXT) throw badRequest('message is too long');
}

function person(id: number): object {
  return { id, is_bot: false, first_name: `Person ${id}`, language_code: 'en' };
}

function groupType(chat: number): string {
  return String(chat).startsWith('-100') ? 'supergroup' : 'group';
}

/** Clients find commands by the entity, not by the slash. */
function commandIn(text: string): object {
  const [command] = /^\/\w+(@\w+)?/.exec(text) ?? [];
  return command === undefined ? {} : { entities: [{ type: 'bot_command', offset: 0, length: command.length }] };
}
