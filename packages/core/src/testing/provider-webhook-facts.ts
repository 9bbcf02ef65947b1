import { CoordinationUnavailableError, LeaseLostError, LifecycleError } from '../errors.js';
import type { IncomingMessage, Intake, Provider } from '../providers/provider.js';
import { assertEqual } from './assertions.js';
import type { OpenProvider, ProviderSubject, WebhookPlatform } from './provider-subject.js';

/** A provider with a webhook, as a fact calls it. */
interface Called extends WebhookPlatform {
  readonly provider: Provider;
  readonly id: (name: string) => string;
  readonly secrets: readonly string[];
  /** The answer's status and text. */
  readonly ask: (request: Request, intake: Intake) => Promise<{ status: number; text: string }>;
}

type Fact = (called: Called) => Promise<void>;

const HI = { id: 'm1', chat: 'ana', text: 'hi' };
const OTHER = { id: 'm2', chat: 'ben', text: 'ho' };
const BYE = { id: 'm3', chat: 'ana', text: 'bye' };

/** What every provider with a webhook must do besides. */
export function webhookFacts(subject: ProviderSubject): Record<string, (open: OpenProvider) => Promise<void>> {
  const { webhook, naming, secrets = [] } = subject;
  if (webhook === undefined) return {};
  const facts = { ...FACTS, ...(webhook.batches ? OF_BATCHES : {}), ...(webhook.events ? OF_EVENTS : {}) };
  const bind = (fact: Fact) => async (open: OpenProvider) => {
    const { provider } = open;
    const ask: Called['ask'] = async (request, intake) => {
      const answer = await provider.webhook?.(request, intake);
      if (answer === undefined) throw new Error('The provider has no webhook.');
      return { status: answer.status, text: await answer.text() };
    };
    await provider.start(never);
    await fact({ ...webhook, provider, secrets, ask, id: (name) => naming?.id?.(name) ?? name });
  };
  return Object.fromEntries(Object.entries(facts).map(([title, fact]) => [title, bind(fact)]));
}

const never: Intake = () => Promise.reject(new Error('A message was handed to intake that is none.'));

/** Takes in what it is told to, and refuses the rest with `error`. */
function recorder(refused: (message: IncomingMessage) => Error | undefined = () => undefined) {
  const taken: IncomingMessage[] = [];
  const intake: Intake = async (message) => {
    const error = refused(message);
    taken.push(message);
    if (error !== undefined) throw error;
    return 'accepted';
  };
  return { taken, intake };
}

/** A body that has no end. `pulled` counts how much of it was asked for. */
function endless(like: Request, chunkBytes: number): { request: Request; pulled: () => number } {
  let pulled = 0;
  const body = new ReadableStream({
    pull(controller) {
      pulled++;
      controller.enqueue(new Uint8Array(chunkBytes).fill(0x20));
    },
  });
  const headers = new Headers(like.headers);
  headers.delete('content-length');
  const request = new Request(like.url, { method: 'POST', headers, body, duplex: 'half' } as RequestInit);
  return { request, pulled: () => pulled };
}

function brokenOff(like: Request, start: string): Request {
  const body = new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(start)),
    pull: (controller) => controller.error(new Error('aborted')),
  });
  return new Request(like.url, { method: 'POST', headers: like.headers, body, duplex: 'half' } as RequestInit);
}

const FACTS: Record<string, Fact> = {
  'a valid call is answered 200': async ({ ask, call, body }) => {
    const { taken, intake } = recorder();

    assertEqual((await ask(call(body([HI])), intake)).status, 200);

    assertEqual(taken.length, 1);
  },

  'a wrong signature is answered 401, whatever the body is, and nothing of it is parsed': async (called) => {
    const { ask, forge, call, body } = called;
    for (const each of [body([HI]), '{ not json', '', ' '.repeat(100)]) {
      assertEqual((await ask(forge(each), never)).status, 401);
    }

    const bare = call(body([HI]));
    const unsigned = new Request(bare.url, { method: 'POST', body: body([HI]) });
    assertEqual((await ask(unsigned, never)).status, 401);
  },

  'a body that was changed on its way is answered 401, or is the call of a platform that signs none': async (
    called,
  ) => {
    const { ask, call, body } = called;
    const signed = call(body([HI]));
    const forged = new Request(signed.url, { method: 'POST', headers: signed.headers, body: body([BYE]) });
    const { taken, intake } = recorder();

    const { status } = await ask(forged, intake);

    assertEqual(status === 401 ? taken.length === 0 : status === 200 && taken.length === 1, true);
  },

  'a body longer than the limit is answered 413, and not read to its end': async ({ ask, call, maxBytes }) => {
    const announced = call(' '.repeat(maxBytes + 1));
    assertEqual((await ask(announced, never)).status, 413);

    const { request, pulled } = endless(call(' '), Math.ceil(maxBytes / 2));
    assertEqual((await ask(request, never)).status, 413);
    assertEqual(pulled() < 8, true);
  },

  'a body that is cut short, no JSON or no UTF-8 is answered 400': async ({ ask, call, body }) => {
    const whole = body([HI]);
    for (const part of [0.1, 0.3, 0.5, 0.7, 0.9]) {
      const cut = whole.slice(0, Math.floor(whole.length * part));
      assertEqual((await ask(call(cut), never)).status, 400);
    }
    for (const each of ['', 'null', '[]', '7', '"text"', '{', Uint8Array.from([0x22, 0xff, 0x22])]) {
      assertEqual((await ask(call(each), never)).status, 400);
    }
  },

  'a body that breaks off on its way is answered 400, or 401': async ({ ask, call, body }) => {
    const { status } = await ask(brokenOff(call(body([HI])), body([HI]).slice(0, 10)), never);

    assertEqual(status === 400 || status === 401, true);
  },

  'a call of another method is answered 4xx, and takes nothing in': async ({ ask, call, body }) => {
    const { url, headers } = call(body([HI]));
    for (const method of ['GET', 'PUT', 'DELETE', 'HEAD']) {
      const { status } = await ask(new Request(url, { method, headers }), never);
      assertEqual(status >= 400 && status < 500, true);
    }
  },

  'a message that is not taken in is answered 503, and taken in when it is delivered again': async (called) => {
    const { ask, call, body, id } = called;
    const passing = [
      new CoordinationUnavailableError('unavailable', 'down'),
      new CoordinationUnavailableError('timeout', 'late'),
      new LifecycleError('stopped', 'stopping'),
      new LeaseLostError('superseded'),
    ];
    for (const error of passing) {
      const { intake } = recorder(() => error);
      assertEqual((await ask(call(body([HI])), intake)).status, 503);
    }
    const { taken, intake } = recorder();

    assertEqual((await ask(call(body([HI])), intake)).status, 200);

    assertEqual(
      taken.map((message) => message.id),
      [id('m1')],
    );
  },

  'no answer has a secret or the text of a message in it': async ({ ask, call, forge, body, secrets }) => {
    const planted = { ...HI, text: 'a text that nobody may see' };
    const down = recorder(() => new CoordinationUnavailableError('unavailable', 'down'));
    const whole = body([planted]);
    const answers = await Promise.all([
      ask(call(whole), recorder().intake),
      ask(call(whole), down.intake),
      ask(call(whole.slice(0, -2)), never),
      ask(forge(whole), never),
    ]);

    for (const { text } of answers) {
      assertEqual(
        [planted.text, ...secrets].filter((secret) => text.includes(secret)),
        [],
      );
    }
  },
};

const OF_BATCHES: Record<string, Fact> = {
  'all messages of one call reach intake, in their order, before the first is taken in': async ({
    ask,
    call,
    body,
  }) => {
    const taken: string[] = [];
    const answers: (() => void)[] = [];
    const answer = ask(call(body([HI, OTHER, BYE])), ({ text }) => {
      taken.push(text);
      return new Promise((resolve) => answers.push(() => resolve('accepted')));
    });
    while (answers.length < 3) await new Promise(setImmediate);

    assertEqual(taken, ['hi', 'ho', 'bye']);
    for (const each of answers) each();
    assertEqual((await answer).status, 200);
  },

  'a call of which one message is not taken in is answered 503, and all of it comes again with the same ids': async (
    called,
  ) => {
    const { ask, call, body, id } = called;
    const ids = ['m1', 'm2', 'm3'].map(id);
    for (const failing of ids) {
      const error = new CoordinationUnavailableError('unavailable', 'down');
      const first = recorder((message) => (message.id === failing ? error : undefined));
      const again = recorder();

      assertEqual((await ask(call(body([HI, OTHER, BYE])), first.intake)).status, 503);
      assertEqual((await ask(call(body([HI, OTHER, BYE])), again.intake)).status, 200);

      assertEqual(
        [first.taken, again.taken].map((taken) => taken.map((message) => message.id)),
        [ids, ids],
      );
    }
  },
};

const OF_EVENTS: Record<string, Fact> = {
  'what is no message of a chat is answered 200, and waits in no queue': async ({ ask, call, events = [] }) => {
    for (const event of events) assertEqual((await ask(call(event), never)).status, 200);
  },
};
