import { ConfigError, type IncomingMessage, type Intake } from '@botmesh/core/spi';
import { type Body, kindOf } from './arrival.js';
import { messageOf } from './parse.js';

/**
 * Says what Slack is answered at once: the errors of a modal, the options of a menu, a first word on a command. Called when it
 * arrives, on the replica that got it, outside of the chat's queue: be quick, and change nothing here. Undefined is the empty
 * answer.
 */
export type Answer = (message: IncomingMessage) => object | undefined | Promise<object | undefined>;

/** What becomes of a delivery that Slack may forget: the body of its acknowledgement, where it has one. */
export interface Done {
  readonly answer?: object | undefined;
}

/** Of the three seconds that Slack waits, those that the hook may take. The rest is for taking in. */
const HOOK_MS = 2_000;

/**
 * Takes in what Slack delivered. Resolves when Slack may be told so. A menu that asks for options is answered and no message;
 * neither is a modal whose answer is `errors`: the user goes on filling it in.
 *
 * @throws ConfigError for a hook that takes too long or gives no object, what it threw, and what `intake` rejects with: Slack then
 * shows its own error
 */
export async function take(body: Body, intake: Intake, hook: Answer | undefined): Promise<Done> {
  const message = messageOf(body);
  if (message === undefined) return {};
  // An event has no answer, and waits for nothing before it has its place.
  if (kindOf(body) === 'event') {
    await intake(message);
    return {};
  }
  const answer = hook === undefined ? undefined : await ask(hook, message);
  if (kindOf(body) === 'options') return { answer: answer ?? { options: [] } };
  if ((answer as { response_action?: unknown } | undefined)?.response_action === 'errors') return { answer };
  await intake(message);
  return { answer };
}

async function ask(hook: Answer, message: IncomingMessage): Promise<object | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new ConfigError(`slack(): answer took longer than ${HOOK_MS} ms.`)), HOOK_MS);
  });
  try {
    const answer: unknown = await Promise.race([hook(message), late]);
    if (answer === undefined || (typeof answer === 'object' && answer !== null)) return answer as object | undefined;
    throw new ConfigError(`slack(): answer gave a ${typeof answer}. Give an object, or undefined for nothing.`);
  } finally {
    clearTimeout(timer);
  }
}
