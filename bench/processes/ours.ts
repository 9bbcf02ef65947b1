import { randomUUID } from 'node:crypto';
import type { Coordinator, Inbox } from '@botmesh/core/spi';
import type { Line, Message, Subject } from './subject.js';

const TEXT = 'hello, is anybody there?';

/** The loads under which accepted messages are measured beside plain turns. */
const ACCEPTING = ['W2', 'W2p', 'W3', 'W2b'];

/** What is measured of a coordinator: plain turns, and accepted messages. `make` is given the place of the run. */
export function ours(make: (where: string) => Coordinator & Inbox): readonly [turns: Subject, accepted: Subject] {
  return [
    { name: 'turns', isOurs: true, open: ({ where }) => open(make(where), turn) },
    {
      name: 'accepted messages',
      isOurs: true,
      loads: ACCEPTING,
      open: ({ where }) => {
        // Runs may follow each other in one place, which remembers ids.
        const run = randomUUID();
        let ids = 0;
        return open(make(where), (coordinator, chat, message) => {
          ids += 1;
          return accepted(coordinator, chat, `${run}-${ids}`, message);
        });
      },
    },
  ];
}

type Handle = (coordinator: Coordinator & Inbox, chat: string, message: Message) => Promise<void>;

async function open(coordinator: Coordinator & Inbox, handle: Handle): Promise<Line> {
  await coordinator.start();
  return {
    submit: (chat, message) => handle(coordinator, chat, message),
    close: () => coordinator.stop(),
  };
}

async function turn(coordinator: Coordinator, chat: string, message: Message): Promise<void> {
  const ticket = await coordinator.reserve(chat);
  message.placed();
  const held = await coordinator.acquireTurn(ticket);
  await message.handle(held.fence);
  await held.release();
}

async function accepted(coordinator: Coordinator & Inbox, chat: string, id: string, message: Message): Promise<void> {
  const ticket = await coordinator.accept(chat, { id, body: TEXT });
  if (ticket === null) throw new Error(`The id ${id} was taken for a duplicate.`);
  message.placed();
  const held = await coordinator.acquireTurn(ticket);
  await message.handle(held.fence);
  await held.release();
}
