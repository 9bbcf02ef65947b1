import { CoordinationUnavailableError, LeaseLostError } from '../errors.js';
import type { IncomingMessage, Intake, SendContext } from '../providers/provider.js';
import { assertEqual } from './assertions.js';
import type { Naming, OpenProvider, ProviderSubject } from './provider-subject.js';
import { webhookFacts } from './provider-webhook-facts.js';

export type { Naming, OpenProvider, ProviderSubject, SuiteMessage, WebhookPlatform } from './provider-subject.js';

export interface ProviderTest {
  readonly title: string;
  /** Rejects when the fact does not hold. */
  readonly run: () => Promise<void>;
  readonly skip?: string;
}

type Body = (open: OpenProvider, names: Naming, secrets: readonly string[]) => Promise<void>;

/** What every provider must do, for any test runner: call `run` of each, unless `skip` tells why not. */
export function providerConformance(subject: ProviderSubject): ProviderTest[] {
  const same = (name: string): string => name;
  const names: Naming = { chat: same, id: same, ...subject.naming };
  const facts = { ...FACTS, ...webhookFacts(subject) };
  return Object.entries(facts).map(([title, body]) => {
    const skip = subject.lacks?.[title];
    const run = async (): Promise<void> => {
      const open = await subject.open();
      try {
        await body(open, names, subject.secrets ?? []);
      } finally {
        await open.provider.stop();
        await open.provider.close?.();
        await open.close?.();
      }
    };
    return skip === undefined ? { title, run } : { title, run, skip };
  });
}

/** Takes everything in, and remembers it. */
function recorder(answer: 'accepted' | 'duplicate' = 'accepted'): { taken: IncomingMessage[]; intake: Intake } {
  const taken: IncomingMessage[] = [];
  return {
    taken,
    intake: async (message) => {
      taken.push(message);
      return answer;
    },
  };
}

function context(signal: AbortSignal = new AbortController().signal): SendContext {
  return { signal, fence: 1, key: 'k:1:0' };
}

/** What a log that shows an error in full would show. */
function everythingIn(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify(error) ?? String(error);
  const own = JSON.stringify(Object.getOwnPropertyNames(error).map((name) => String(Reflect.get(error, name))));
  return `${own} ${JSON.stringify(error)} ${error.cause === undefined ? '' : everythingIn(error.cause)}`;
}

const HI = { id: 'm1', chat: 'ana', text: 'hi' };

const FACTS: Record<string, Body> = {
  'it has a lower-case name': async ({ provider }) => {
    assertEqual(/^[a-z][a-z0-9-]*$/.test(provider.name), true);
  },

  'a delivered message reaches intake with its id, chat and text': async ({ provider, deliver }, names) => {
    const { taken, intake } = recorder();
    await provider.start(intake);

    assertEqual(await deliver(HI), true);

    assertEqual(
      taken.map(({ id, chat, text }) => ({ id, chat, text })),
      [{ id: names.id('m1'), chat: names.chat('ana'), text: 'hi' }],
    );
  },

  'what it hands to intake is plain JSON data': async ({ provider, deliver }) => {
    const { taken, intake } = recorder();
    await provider.start(intake);
    await deliver(HI);

    assertEqual(JSON.parse(JSON.stringify(taken)), taken);
    assertEqual(taken.length, 1);
  },

  'a redelivery has the same id': async ({ provider, deliver }, names) => {
    const { taken, intake } = recorder();
    await provider.start(intake);
    await deliver(HI);
    await deliver(HI);

    assertEqual(
      taken.map(({ id }) => id),
      [names.id('m1'), names.id('m1')],
    );
  },

  'a duplicate is a success to the platform': async ({ provider, deliver }) => {
    await provider.start(recorder('duplicate').intake);

    assertEqual(await deliver(HI), true);
  },

  'messages reach intake in the order of their arrival, while earlier ones are not taken in yet': async (open) => {
    const taken: string[] = [];
    const answers: (() => void)[] = [];
    let allTaken: () => void = () => {};
    const third = new Promise<void>((resolve) => {
      allTaken = resolve;
    });
    await open.provider.start(({ text }) => {
      taken.push(text);
      if (taken.length === 3) allTaken();
      return new Promise((resolve) => answers.push(() => resolve('accepted')));
    });
    const delivered = ['1', '2', '3'].map((text) => open.deliver({ id: `m${text}`, chat: 'ana', text }));
    await third;
    for (const answer of answers) answer();
    await Promise.all(delivered);

    assertEqual(taken, ['1', '2', '3']);
  },

  'the platform is not told of success before the message is taken in': async ({ provider, deliver }) => {
    let isTaken = false;
    await provider.start(async () => {
      for (let i = 0; i < 20; i++) await new Promise(setImmediate);
      isTaken = true;
      return 'accepted';
    });

    await deliver(HI);

    assertEqual(isTaken, true);
  },

  'the platform is told when a message was not taken in': async ({ provider, deliver }) => {
    await provider.start(() => Promise.reject(new CoordinationUnavailableError('unavailable', 'down')));

    assertEqual(await deliver(HI), false);
  },

  'any text gets through unchanged': async ({ provider, deliver }) => {
    const { taken, intake } = recorder();
    await provider.start(intake);
    const text = ' "quoted" \\ é 🔑 <b>&amp;</b> ‮ x '.repeat(50);
    await deliver({ id: 'm1', chat: 'ana', text });

    assertEqual(taken[0]?.text, text);
  },

  'a reply reaches the platform, in its chat, before send resolves': async ({ provider, sent }, names) => {
    const [ana, ben] = [names.chat('ana'), names.chat('ben')];
    await provider.start(recorder().intake);

    await provider.send(ana, { text: 'one' }, context());
    assertEqual(sent(), [{ chat: ana, text: 'one' }]);
    await provider.send(ben, { text: 'two' }, context());
    assertEqual(sent(), [
      { chat: ana, text: 'one' },
      { chat: ben, text: 'two' },
    ]);
  },

  'a send still works after stop, for turns that run on': async ({ provider, sent }, names) => {
    await provider.start(recorder().intake);
    await provider.stop();

    await provider.send(names.chat('ana'), { text: 'late' }, context());

    assertEqual(sent(), [{ chat: names.chat('ana'), text: 'late' }]);
  },

  'a send that the platform refuses rejects, and says neither its text nor a secret': async (open, names, secrets) => {
    const { provider, refuseNextSend } = open;
    if (refuseNextSend === undefined) return;
    await provider.start(recorder().intake);
    refuseNextSend();
    const text = 'a text that nobody may see';
    let refused: unknown;
    try {
      await provider.send(names.chat('ana'), { text }, context());
    } catch (error) {
      refused = error;
    }

    assertEqual(refused instanceof Error, true);
    const told = everythingIn(refused);
    assertEqual(
      [text, ...secrets].filter((secret) => told.includes(secret)),
      [],
    );
  },

  'a send whose turn is already lost does not hang': async ({ provider }, names) => {
    await provider.start(recorder().intake);
    const lost = AbortSignal.abort(new LeaseLostError('expired'));

    await Promise.resolve(provider.send(names.chat('ana'), { text: 'one' }, context(lost))).catch(() => {});
  },

  'stop can be called twice, and before start': async ({ provider }) => {
    await provider.stop();
    await provider.start(recorder().intake);
    await provider.stop();
    await provider.stop();
  },
};
