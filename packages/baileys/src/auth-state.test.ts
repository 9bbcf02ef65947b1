import { MemoryStateStore } from '@botmesh/core';
import { expect, test } from 'vitest';
import { useBotmeshAuthState } from './auth-state.js';
import { decode, encode } from './encode.js';

const initAuthCreds = () => ({ noiseKey: { private: Buffer.from([1, 2, 255]) }, registered: false });
const leadOf = (term: number, isLost = () => false) => ({
  term,
  assertHeld() {
    if (isLost()) throw new Error('lost');
  },
});

test('credentials and keys come back with their bytes, and what was deleted does not', async () => {
  const store = new MemoryStateStore();
  const first = await useBotmeshAuthState(store, 'main', { lead: leadOf(1), initAuthCreds });
  first.state.creds.registered = true;
  await first.saveCreds();
  await first.state.keys.set({
    session: { a: Buffer.from('a'), b: new Uint8Array([9]) },
    'pre-key': { 1: { public: Buffer.from('p') } },
  });
  await first.state.keys.set({ session: { b: null } });

  const next = await useBotmeshAuthState(store, 'main', { lead: leadOf(2), initAuthCreds });

  expect(next.state.creds).toEqual({ noiseKey: { private: Buffer.from([1, 2, 255]) }, registered: true });
  expect(await next.state.keys.get('session', ['a', 'b', 'c'])).toEqual({ a: Buffer.from('a') });
  expect(await next.state.keys.get('pre-key', ['1'])).toEqual({ 1: { public: Buffer.from('p') } });
});

test('accounts know nothing of each other', async () => {
  const store = new MemoryStateStore();
  const a = await useBotmeshAuthState(store, 'a', { lead: leadOf(1), initAuthCreds });
  await a.state.keys.set({ session: { x: 1 } });

  const b = await useBotmeshAuthState(store, 'b', { lead: leadOf(1), initAuthCreds });

  expect(await b.state.keys.get('session', ['x'])).toEqual({});
});

test('what the present leader has read or written, an earlier one neither changes nor deletes', async () => {
  const store = new MemoryStateStore();
  const old = await useBotmeshAuthState(store, 'main', { lead: leadOf(1), initAuthCreds });
  await old.saveCreds();
  await old.state.keys.set({ session: { read: 'r', written: 'w' } });
  const now = await useBotmeshAuthState(store, 'main', { lead: leadOf(2), initAuthCreds });
  await now.state.keys.get('session', ['read']);
  await now.state.keys.set({ session: { written: 'newer' } });

  await expect(old.state.keys.set({ session: { read: null } })).rejects.toMatchObject({ code: 'stale-fence' });
  await expect(old.state.keys.set({ session: { written: 'older' } })).rejects.toMatchObject({ code: 'stale-fence' });
  await expect(old.saveCreds()).rejects.toMatchObject({ code: 'stale-fence' });
  await expect(old.state.keys.get('session', ['written'])).rejects.toMatchObject({ code: 'stale-fence' });
  expect(await now.state.keys.get('session', ['read', 'written'])).toEqual({ read: 'r', written: 'newer' });
});

test('once its leadership is lost, nothing is written', async () => {
  const store = new MemoryStateStore();
  let isLost = false;
  const { state, saveCreds } = await useBotmeshAuthState(store, 'main', {
    lead: leadOf(1, () => isLost),
    initAuthCreds,
  });

  isLost = true;

  await expect(state.keys.set({ session: { a: 1 } })).rejects.toThrow('lost');
  await expect(saveCreds()).rejects.toThrow('lost');
});

test('the newest credentials are the last to be written, however many saves run at once', async () => {
  const store = new MemoryStateStore();
  const { state, saveCreds } = await useBotmeshAuthState(store, 'main', { lead: leadOf(1), initAuthCreds });

  const saving = [1, 2, 3, 4].map((n) => {
    state.creds.registered = n;
    return saveCreds();
  });
  await Promise.all(saving);

  const next = await useBotmeshAuthState(store, 'main', { lead: leadOf(1), initAuthCreds });
  expect(next.state.creds.registered).toBe(4);
});

test('a loaded key is revived as it is asked for', async () => {
  const store = new MemoryStateStore();
  const options = { lead: leadOf(1), initAuthCreds, revive: (type: string, value: unknown) => ({ type, value }) };
  const { state } = await useBotmeshAuthState(store, 'main', options);
  await state.keys.set({ 'app-state-sync-key': { k: { a: 1 } } });

  expect(await state.keys.get('app-state-sync-key', ['k'])).toEqual({
    k: { type: 'app-state-sync-key', value: { a: 1 } },
  });
});

test('what cannot be kept is refused by its path, without its contents', async () => {
  const { state } = await useBotmeshAuthState(new MemoryStateStore(), 'main', { lead: leadOf(1), initAuthCreds });
  const circle: Record<string, unknown> = {};
  circle.self = circle;

  for (const value of [new Map(), { deep: () => 1, n: Number.NaN }, circle, Symbol('s')]) {
    await expect(state.keys.set({ session: { id: value } })).rejects.toMatchObject({ code: 'bad-input' });
  }
  await expect(useBotmeshAuthState(new MemoryStateStore(), '', { lead: leadOf(1), initAuthCreds })).rejects.toThrow(
    'account is empty',
  );
});

test('whatever looks like the encoding itself comes back as it was', () => {
  const value = {
    $bytes: 'no',
    list: [1n, null, new Date(5)],
    nested: { $object: { $date: 'x' } },
    bytes: Buffer.from('b'),
  };

  expect(decode(JSON.parse(JSON.stringify(encode(value, 'v'))))).toEqual(value);
});
