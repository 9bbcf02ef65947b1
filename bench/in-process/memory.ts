import { setImmediate as nextTask } from 'node:timers/promises';
import { heapBytes } from '../lib/gc.js';
import type { Contender } from './contenders.js';
import { Source } from './loads.js';

export interface Memory {
  /** For each chat in which a message is being handled. */
  readonly activeBytes: number;
  /** For each chat whose messages are all done. */
  readonly idleBytes: number;
}

/** What a contender keeps in memory for `chats` chats with one message each. */
export async function memory(contender: Contender, chats: number): Promise<Memory> {
  let begun = 0;
  let allBegun = (): void => {};
  let end = (): void => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  const line = await contender.open(() => {
    begun += 1;
    if (begun === chats) allBegun();
    return ended;
  });
  const source = new Source(chats, 1);
  const messages = Array.from({ length: chats }, () => source.next());

  const before = heapBytes();
  const running = new Promise<void>((resolve) => {
    allBegun = resolve;
  });
  const handled = Promise.all(messages.map((message) => line.submit(message)));
  await running;
  const active = heapBytes();
  end();
  await handled;
  // What ends after the handler, such as a Bot's turn, ends meanwhile.
  await nextTask();
  const idle = heapBytes();
  await line.close();
  return { activeBytes: (active - before) / chats, idleBytes: (idle - before) / chats };
}
