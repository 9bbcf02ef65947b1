import { EventEmitter } from 'node:events';
import { expect, test, vi } from 'vitest';
import { gate } from '../testing/bots.js';
import { handleSignals, type SignalSource } from './signals.js';

class FakeProcess extends EventEmitter implements SignalSource {
  readonly exit = vi.fn<(code: number) => void>();

  get listening(): number {
    return this.listenerCount('SIGTERM') + this.listenerCount('SIGINT');
  }
}

function stoppable() {
  const ended = gate();
  const stop = vi.fn<(options: { drainMs?: number }) => Promise<void>>(() => ended.opened);
  return { stop, ended };
}

test('the first signal stops the bot in good order, and then the process; no listener is left', async () => {
  const source = new FakeProcess();
  const { stop, ended } = stoppable();
  handleSignals({ stop }, { drainMs: 7 }, source);

  source.emit('SIGTERM');
  expect(stop.mock.calls).toEqual([[{ drainMs: 7 }]]);
  expect(source.exit).not.toHaveBeenCalled();
  ended.open();

  await vi.waitFor(() => expect(source.exit.mock.calls).toEqual([[0]]));
  expect(source.listening).toBe(0);
});

test('a second signal cuts the stop short, and a third finds no listener', async () => {
  const source = new FakeProcess();
  const { stop, ended } = stoppable();
  handleSignals({ stop }, {}, source);

  source.emit('SIGTERM');
  source.emit('SIGINT');
  expect(stop.mock.calls).toEqual([[{ drainMs: 10_000 }], [{ drainMs: 0 }]]);
  expect(source.listening).toBe(0);
  ended.open();

  await vi.waitFor(() => expect(source.exit.mock.calls).toEqual([[1]]));
});

test('who takes the listeners away stops nothing, and with exit: false the process goes on', async () => {
  const source = new FakeProcess();
  const { stop, ended } = stoppable();
  const off = handleSignals({ stop }, { signals: ['SIGTERM'] }, source);
  off();
  source.emit('SIGTERM');
  expect(stop).not.toHaveBeenCalled();

  handleSignals({ stop }, { signals: ['SIGTERM'], exit: false }, source);
  source.emit('SIGTERM');
  ended.open();
  await vi.waitFor(() => expect(source.listening).toBe(0));
  expect(source.exit).not.toHaveBeenCalled();
});

test('options that make no sense are refused by name', () => {
  const source = new FakeProcess();
  const { stop } = stoppable();

  expect(() => handleSignals({ stop }, { signals: 'SIGTERM' as never }, source)).toThrow(/signals is no list/);
  expect(() => handleSignals({ stop }, { drainMs: -1 }, source)).toThrow(/drainMs is -1/);
  expect(() => handleSignals({ stop }, { signal: 'x' } as never, source)).toThrow(/no option 'signal'/);
  expect(source.listening).toBe(0);
});
