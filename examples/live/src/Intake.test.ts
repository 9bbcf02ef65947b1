import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Intake } from './Intake.js';
import type { Delivery, Order } from './protocol.js';
import type { Replica } from './Supervisor.js';

const replicas: Replica[] = [1, 2].map((number) => ({ number, state: 'running', pid: number, lives: 1 }));
const shown: string[] = [];
const notices: string[] = [];
let offered: [number, Delivery][] = [];
let intake: Intake;

beforeEach(() => {
  vi.useFakeTimers();
  let turn = 0;
  offered = [];
  shown.length = 0;
  notices.length = 0;
  intake = new Intake({
    replicas: {
      next: async () => replicas[turn++ % 2]!,
      send: ({ number }: Replica, order: Order) => {
        if (order.kind === 'deliver') offered.push([number, order.message]);
      },
    },
    show: async (chat, text) => void shown.push(`${chat}: ${text}`),
    tell: (notice) => notices.push(notice),
  });
});

afterEach(() => {
  vi.useRealTimers();
});

const offers = () => offered.map(([number, { text }]) => `${text} to ${number}`);

test('a message that a replica had not taken in when it died goes to another, under the same id', async () => {
  const taken = intake.deliver(intake.receive('ana', 'hi'));
  await vi.advanceTimersByTimeAsync(0);
  intake.died(replicas[0]!);
  await vi.advanceTimersByTimeAsync(0);
  await intake.heard({ kind: 'accepted', id: '1' });
  await taken;

  expect(offered).toEqual([
    [1, { id: '1', chat: 'ana', text: 'hi' }],
    [2, { id: '1', chat: 'ana', text: 'hi' }],
  ]);
});

test('a message that a replica is silent about goes to another', async () => {
  const taken = intake.deliver(intake.receive('ana', 'hi'));
  await vi.advanceTimersByTimeAsync(2_000);
  await intake.heard({ kind: 'accepted', id: '1' });
  await taken;

  expect(offers()).toEqual(['hi to 1', 'hi to 2']);
});

test('a chat’s next message is offered when the one before it is taken in; other chats do not wait', async () => {
  void intake.deliver(intake.receive('ana', 'one'));
  void intake.deliver(intake.receive('ana', 'two'));
  void intake.deliver(intake.receive('ben', 'hi'));
  await vi.advanceTimersByTimeAsync(0);
  const before = offers();
  await intake.heard({ kind: 'accepted', id: '1' });
  await vi.advanceTimersByTimeAsync(0);

  expect(before).toEqual(['one to 1', 'hi to 2']);
  expect(offers()).toEqual(['one to 1', 'hi to 2', 'two to 1']);
});

test('an answer that comes again under its key is shown once', async () => {
  await intake.heard({ kind: 'answer', chat: 'ana', text: 'Hello!', key: 'ana:1:0' });
  await intake.heard({ kind: 'answer', chat: 'ana', text: 'Hello!', key: 'ana:1:0' });

  expect(shown).toEqual(['ana: Hello!']);
});

test('a message that nobody can ever take in is told of, and not waited for', async () => {
  void intake.deliver(intake.receive('ana', 'hi'));
  await vi.advanceTimersByTimeAsync(0);
  await intake.heard({ kind: 'refused', id: '1', why: 'it is no message', mayPass: false });
  await intake.answered();
  await vi.advanceTimersByTimeAsync(10_000);

  expect(notices).toEqual(['message 1 is refused: it is no message']);
  expect(offers()).toEqual(['hi to 1']);
});
