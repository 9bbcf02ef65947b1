import { CoordinationUnavailableError, LeaseLostError } from '../errors.js';
import type { IncomingMessage, Intake, Provider, SendContext } from '../providers/provider.js';
import { assertEqual } from './assertions.js';

/** A provider under test, with a platform that the test plays. */
export interface ProviderSubject {
  readonly name: string;
  readonly open: () => Promise<OpenProvider>;
  /** Titles of tests that it cannot pass, with the reason. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export interface OpenProvider {
  readonly provider: Provider;
  /**
   * Lets the platform deliver a message, as it really would, and tells whether the platform was told that it is taken
   * in. Platforms that tell nothing always answer true.
   */
  readonly deliver: (message: { id: string; chat: string; text: string }) => Promise<boolean>;
  /** What reached the platform, in order. */
  readonly sent: () => readonly { chat: string; text: string }[];
  /** Makes the platform refuse the next send. Without it, that is not tested. */
  readonly refuseNextSend?: () => void;
  readonly close?: () => Promise<void>;
}

export interface ProviderTest {
  readonly title: string;
  /** Rejects when the fact does not hold. */
  readonly run: () => Promise<void>;
  readonly skip?: string;
}

type Body = (open: OpenProvider) => Promise<void>;

/** What every provider must do, for any test runner: call `run` of each, unless `skip` tells why not. */
export function providerConformance(subject: ProviderSubject): ProviderTest[] {
  return Object.entries(FACTS).map(([title, body]) => {
    const skip = subject.lacks?.[title];
    const run = async (): Promise<void> => {
      const open = await subject.open();
      try {
        await body(open);
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

const HI = { id: 'm1', chat: 'ana', text: 'hi' };

const FACTS: Record<string, Body> = {
  'it has a lower-case name': async ({ provider }) => {
    assertEqual(/^[a-z][a-z0-9-]*$/.test(provider.name), true);
  },

  'a delivered message reaches intake with its id, chat and text': async ({ provider, deliver }) => {
    const { taken, intake } = recorder();
    await provider.start(intake);

    assertEqual(await deliver(HI), true);

    assertEqual(
      taken.map(({ id, chat, text }) => ({ id, chat, text })),
      [HI],
    );
  },

  'what it hands to intake is plain JSON data': async ({ provider, deliver }) => {
    const { taken, intake } = recorder();
    await provider.start(intake);
    await deliver(HI);

    assertEqual(JSON.parse(JSON.stringify(taken)), taken);
    assertEqual(taken.length, 1);
  },

  'a redelivery has the same id': async ({ provider, deliver }) => {
    const { taken, intake } = recorder();
    await provider.start(intake);
    await deliver(HI);
    await deliver(HI);

    assertEqual(
      taken.map(({ id }) => id),
      ['m1', 'm1'],
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

  'a reply reaches the platform, in its chat, before send resolves': async ({ provider, sent }) => {
    await provider.start(recorder().intake);

    await provider.send('ana', { text: 'one' }, context());
    assertEqual(sent(), [{ chat: 'ana', text: 'one' }]);
    await provider.send('ben', { text: 'two' }, context());
    assertEqual(sent(), [
      { chat: 'ana', text: 'one' },
      { chat: 'ben', text: 'two' },
    ]);
  },

  'a send still works after stop, for turns that run on': async ({ provider, sent }) => {
    await provider.start(recorder().intake);
    await provider.stop();

    await provider.send('ana', { text: 'late' }, context());

    assertEqual(sent(), [{ chat: 'ana', text: 'late' }]);
  },

  'a send that the platform refuses rejects': async ({ provider, refuseNextSend }) => {
    if (refuseNextSend === undefined) return;
    await provider.start(recorder().intake);
    refuseNextSend();
    let isRefused = false;
    try {
      await provider.send('ana', { text: 'one' }, context());
    } catch {
      isRefused = true;
    }

    assertEqual(isRefused, true);
  },

  'a send whose turn is already lost does not hang': async ({ provider }) => {
    await provider.start(recorder().intake);
    const lost = AbortSignal.abort(new LeaseLostError('expired'));

    await Promise.resolve(provider.send('ana', { text: 'one' }, context(lost))).catch(() => {});
  },

  'stop can be called twice, and before start': async ({ provider }) => {
    await provider.stop();
    await provider.start(recorder().intake);
    await provider.stop();
    await provider.stop();
  },
};
