import { BOT, BOT_USER, type Payload, TEAM, textOf } from './payloads.js';

/** A call of the Web API, or a post to a response_url (then its method is `response_url`). */
export interface ApiCall {
  readonly method: string;
  readonly args: Payload;
  readonly token: string;
  readonly atMs: number;
  /** Undefined when it was answered with ok. */
  readonly error: string | undefined;
}

/** A message as it stands in a channel. */
export interface Posted {
  readonly channel: string;
  readonly ts: string;
  readonly text: string;
  readonly threadTs: string | undefined;
  /** Undefined for one that a user wrote. */
  readonly by: 'bot' | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly body: Payload;
}

export interface WebApiSetup {
  /** A ticket of Socket Mode, as an address. */
  connectionUrl(): string;
  nextTs(): string;
  /** How long ago a trigger was given out, in milliseconds. Undefined for one that never was. */
  triggerAgeMs(id: string): number | undefined;
}

interface Trouble {
  readonly method: string;
  readonly answer: Answer;
  times: number;
}

type Method = (args: Payload) => Payload;

const TRIGGER_MS = 3_000;

/** The Web API as far as bots commonly use it. A method that it does not know answers ok, and is on record as all are. */
export class WebApi {
  readonly calls: ApiCall[] = [];
  readonly messages: Posted[] = [];
  readonly #setup: WebApiSetup;
  readonly #reactions = new Set<string>();
  readonly #troubles: Trouble[] = [];

  constructor(setup: WebApiSetup) {
    this.#setup = setup;
  }

  /** Answers the next `times` calls of `method` so. */
  trouble(method: string, answer: Answer, times: number): void {
    this.#troubles.push({ method, answer, times });
  }

  answer(method: string, args: Payload, token: string): Answer {
    const answer = this.#troubleOf(method) ?? ok(this.#run(method, args, token));
    const { body } = answer;
    const error = body.ok === true ? undefined : textOf(body.error);
    this.calls.push({ method, args, token, atMs: Date.now(), error });
    return answer;
  }

  #troubleOf(method: string): Answer | undefined {
    const trouble = this.#troubles.find((each) => each.method === method && each.times > 0);
    if (trouble === undefined) return undefined;
    trouble.times -= 1;
    return trouble.answer;
  }

  #run(method: string, args: Payload, token: string): Payload {
    if (token === '') return refused('not_authed');
    const wanted = method === 'apps.connections.open' ? 'xapp-' : 'xox';
    if (!token.startsWith(wanted)) return refused(token.startsWith('x') ? 'not_allowed_token_type' : 'invalid_auth');
    return this.#methods[method]?.(args) ?? { ok: true };
  }

  readonly #methods: Readonly<Record<string, Method>> = {
    'auth.test': () => ({
      ok: true,
      url: 'https://fake.slack.com/',
      team: 'fake',
      user: 'bot',
      team_id: TEAM,
      user_id: BOT_USER,
      bot_id: BOT,
      is_enterprise_install: false,
    }),
    'apps.connections.open': () => ({ ok: true, url: this.#setup.connectionUrl() }),
    'chat.postMessage': (args) => this.#post(args),
    'chat.postEphemeral': (args) =>
      hasContent(args) ? { ok: true, message_ts: this.#setup.nextTs() } : refused('no_text'),
    'chat.update': (args) => this.#change(args, textOf(args.text)),
    'chat.delete': (args) => this.#change(args, undefined),
    'reactions.add': (args) => this.#react(args, true),
    'reactions.remove': (args) => this.#react(args, false),
    'views.open': (args) => this.#open(args),
    'views.push': (args) => this.#open(args),
    'views.update': (args) => view(args),
    'views.publish': (args) => view(args),
    'conversations.open': (args) => ({ ok: true, channel: { id: `D${textOf(args.users)}` } }),
    'conversations.info': (args) => ({ ok: true, channel: { id: args.channel, name: 'fake' } }),
    'conversations.history': (args) => this.#list(args, () => true),
    'conversations.replies': (args) =>
      this.#list(args, ({ ts, threadTs }) => ts === textOf(args.ts) || threadTs === textOf(args.ts)),
    'users.info': (args) => ({ ok: true, user: { id: args.user, name: 'someone', real_name: 'Someone' } }),
  };

  #post(args: Payload): Payload {
    const channel = textOf(args.channel);
    if (channel === '') return refused('channel_not_found');
    if (!hasContent(args)) return refused('no_text');
    const ts = this.#setup.nextTs();
    const text = textOf(args.text);
    const threadTs = args.thread_ts === undefined ? undefined : textOf(args.thread_ts);
    this.messages.push({ channel, ts, text, threadTs, by: 'bot' });
    const thread = threadTs === undefined ? {} : { thread_ts: threadTs };
    return { ok: true, channel, ts, message: { type: 'message', user: BOT_USER, bot_id: BOT, text, ts, ...thread } };
  }

  /** `text` undefined: it goes. */
  #change({ channel, ts }: Payload, text: string | undefined): Payload {
    const at = this.messages.findIndex((each) => each.channel === channel && each.ts === textOf(ts));
    const found = this.messages[at];
    if (found === undefined) return refused('message_not_found');
    if (text === undefined) this.messages.splice(at, 1);
    else this.messages[at] = { ...found, text };
    return { ok: true, channel, ts, ...(text === undefined ? {} : { text }) };
  }

  #react({ channel, timestamp, name }: Payload, isAdded: boolean): Payload {
    if (!this.messages.some((each) => each.channel === channel && each.ts === textOf(timestamp))) {
      return refused('message_not_found');
    }
    const reaction = JSON.stringify([channel, timestamp, name]);
    if (this.#reactions.has(reaction) === isAdded) return refused(isAdded ? 'already_reacted' : 'no_reaction');
    if (isAdded) this.#reactions.add(reaction);
    else this.#reactions.delete(reaction);
    return { ok: true };
  }

  #open(args: Payload): Payload {
    const ageMs = this.#setup.triggerAgeMs(textOf(args.trigger_id));
    if (ageMs === undefined) return refused('invalid_trigger_id');
    return ageMs > TRIGGER_MS ? refused('expired_trigger_id') : view(args);
  }

  #list({ channel }: Payload, fits: (message: Posted) => boolean): Payload {
    const messages = this.messages
      .filter((each) => each.channel === channel && fits(each))
      .map(({ ts, text, threadTs }) => ({ type: 'message', ts, text, thread_ts: threadTs }));
    return { ok: true, messages, has_more: false };
  }
}

export function refused(error: string): Payload {
  return { ok: false, error };
}

export function ok(body: Payload): Answer {
  return { status: 200, headers: {}, body };
}

function hasContent({ text, blocks, attachments }: Payload): boolean {
  return [text, blocks, attachments].some((part) => part !== undefined && part !== '');
}

function view(args: Payload): Payload {
  const given = typeof args.view === 'string' ? (JSON.parse(args.view) as Payload) : ((args.view ?? {}) as Payload);
  return { ok: true, view: { id: 'V00FAKE', ...given } };
}
