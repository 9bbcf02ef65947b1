interface Common {
  readonly name: string;
  readonly title: string;
  readonly processes: number;
  readonly chats: number;
  /** No more rounds than these, where each takes long. */
  readonly rounds?: number;
}

/** How messages come. */
export type Load =
  /** A fixed number outstanding in each process, for the time of a run. */
  | (Common & { readonly kind: 'closed'; readonly outstanding: number; readonly handlerMs: number })
  /** All at once, the chats in turn; the run ends when all are handled, or no more are. */
  | (Common & { readonly kind: 'burst'; readonly perChat: number; readonly handlerMs: number })
  /** At a fixed rate, all processes together, whether or not earlier ones are done. */
  | (Common & { readonly kind: 'paced'; readonly perSecond: number })
  /** Each chat's turn is held by one process, and nobody waits. */
  | (Common & { readonly kind: 'held' })
  /** The holder of a chat is killed while the other process waits. */
  | (Common & { readonly kind: 'crash' });

export const loads: readonly Load[] = [
  {
    ...{ kind: 'closed', name: 'W1', title: 'one chat, empty handler', processes: 2, chats: 1 },
    ...{ outstanding: 4, handlerMs: 0 },
  },
  {
    ...{ kind: 'closed', name: 'W1h', title: 'one chat, 2 ms handler', processes: 2, chats: 1 },
    ...{ outstanding: 4, handlerMs: 2 },
  },
  {
    ...{ kind: 'closed', name: 'W1hx8', title: 'one chat, 2 ms handler, 8 processes', processes: 8, chats: 1 },
    ...{ outstanding: 1, handlerMs: 2 },
  },
  {
    ...{ kind: 'closed', name: 'W2', title: '10,000 chats, empty handler', processes: 2, chats: 10_000 },
    ...{ outstanding: 32, handlerMs: 0 },
  },
  {
    ...{ kind: 'paced', name: 'W2p', title: '10,000 chats, 800 messages/s', processes: 2, chats: 10_000 },
    ...{ perSecond: 800 },
  },
  {
    ...{ kind: 'burst', name: 'W3', title: '200 messages at once for each of 50 chats, 1 ms handler', processes: 2 },
    ...{ chats: 50, perChat: 200, handlerMs: 1 },
  },
  {
    ...{ kind: 'burst', name: 'W2b', title: '10,000 messages at once, each for a chat of its own', processes: 2 },
    ...{ chats: 10_000, perChat: 1, handlerMs: 0 },
  },
  {
    ...{ kind: 'closed', name: 'W1x4', title: 'one chat, 4 processes', processes: 4, chats: 1 },
    ...{ outstanding: 4, handlerMs: 0 },
  },
  {
    ...{ kind: 'closed', name: 'W2x4', title: '10,000 chats, 4 processes', processes: 4, chats: 10_000 },
    ...{ outstanding: 32, handlerMs: 0 },
  },
  {
    ...{ kind: 'held', name: 'held', title: '10,000 held turns, nobody waits', processes: 2, chats: 10_000 },
    rounds: 3,
  },
  {
    ...{ kind: 'held', name: 'idle', title: 'nothing held', processes: 2, chats: 0 },
    rounds: 3,
  },
  {
    ...{ kind: 'crash', name: 'crash', title: 'kill -9 of the holder', processes: 2, chats: 1 },
  },
];
