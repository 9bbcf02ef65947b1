import { ConfigError } from '@botmesh/core';
import { expect, test } from 'vitest';
import { whatsapp } from './index.js';

const GOOD = { token: 'token', appSecret: 'secret', verifyToken: 'verify' };

test.each<[unknown, RegExp]>([
  [undefined, /no options. Pass { token, appSecret, verifyToken }/],
  [null, /expected an object/],
  [{}, /token is missing/],
  [{ ...GOOD, token: '' }, /token is empty/],
  [{ ...GOOD, token: 'planted\n' }, /token has white space/],
  [{ ...GOOD, token: 7 }, /token is 7/],
  [{ ...GOOD, appSecret: undefined }, /appSecret is missing/],
  [{ ...GOOD, appSecret: [] }, /appSecret/],
  [{ ...GOOD, appSecret: ['planted', ''] }, /appSecret/],
  [{ ...GOOD, verifyToken: '' }, /verifyToken is empty/],
  [{ ...GOOD, phoneNumberIds: 'planted' }, /phoneNumberIds/],
  [{ ...GOOD, phoneNumberIds: [] }, /phoneNumberIds/],
  [{ ...GOOD, phoneNumberIds: ['planted 1'] }, /phoneNumberIds/],
  [{ ...GOOD, path: 'planted' }, /path.*slash/],
  [{ ...GOOD, maxBytes: 0 }, /maxBytes is 0/],
  [{ ...GOOD, timeoutMs: Number.NaN }, /timeoutMs is NaN/],
  [{ ...GOOD, apiVersion: '24' }, /apiVersion/],
  [{ ...GOOD, apiUrl: 'http://planted.example' }, /apiUrl.*in the clear/],
  [{ ...GOOD, apiUrl: 'planted' }, /apiUrl/],
  [{ ...GOOD, onStatus: 'planted' }, /onStatus/],
  [{ ...GOOD, phoneNumberId: '1' }, /no option 'phoneNumberId'.*phoneNumberIds/],
])('options that cannot work are a ConfigError that names them, and no value: case %#', (options, words) => {
  const make = () => whatsapp(options as never);

  expect(make).toThrow(ConfigError);
  expect(make).toThrow(words);
  expect(make).not.toThrow(/planted/);
});

test('what is needed is enough', () => {
  expect(whatsapp(GOOD).name).toBe('whatsapp');
  expect(whatsapp({ ...GOOD, apiUrl: 'http://127.0.0.1:1/', token: () => 'token' }).name).toBe('whatsapp');
});

test('a function that gives no token fails the reply by its name, and nothing has left', async () => {
  const context = { signal: new AbortController().signal, fence: 1, key: 'k' };
  const sent = (token: () => string) =>
    whatsapp({ ...GOOD, token, apiUrl: 'http://127.0.0.1:1' }).send('1:2', { text: 'hi' }, context);
  const thrown = new Error('no vault');

  await expect(sent(() => '')).rejects.toThrow(/the function token gave empty/);
  await expect(
    sent(() => {
      throw thrown;
    }),
  ).rejects.toMatchObject({ code: 'delivery', reason: 'token', cause: thrown });
});
