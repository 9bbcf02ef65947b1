import { createHmac } from 'node:crypto';
import { expect, test } from 'vitest';
import { SIGNATURE_HEADER, signWebhook, verifyWebhook } from '../index.js';
import { isHmac, isSameSecret, sign, verify } from './signature.js';

const NOW_MS = 1_800_000_000_000;
const body = new TextEncoder().encode('{"text":"é🔑"}');
const at = (header: string | null, changes: Partial<Parameters<typeof verify>[2]> = {}) =>
  verify(header, body, { secrets: ['s3cret'], nowMs: NOW_MS, toleranceMs: 300_000, ...changes });

test('a signature is valid for its body, secret and time', () => {
  const header = sign('s3cret', body, NOW_MS);

  expect(at(header)).toBe('valid');
  expect(verify(header, body.slice(1), { secrets: ['s3cret'], nowMs: NOW_MS, toleranceMs: 300_000 })).toBe('wrong');
  expect(at(header, { secrets: ['other'] })).toBe('wrong');
  expect(at(header.replace(/t=\d+/, 't=1800000001'))).toBe('wrong');
});

test('the text and its bytes have the same signature', () => {
  expect(sign('s', '{"text":"é🔑"}', NOW_MS)).toBe(sign('s', body, NOW_MS));
});

test('any of several secrets and signatures will do, so that secrets can change', () => {
  const [old, fresh] = [sign('old', body, NOW_MS), sign('new', body, NOW_MS)];

  expect(at(old, { secrets: ['new', 'old'] })).toBe('valid');
  expect(at(`${old},${fresh.split(',')[1]}`, { secrets: ['new'] })).toBe('valid');
});

test('time is judged on both sides of now, and only when it is signed', () => {
  expect(at(sign('s3cret', body, NOW_MS - 299_000))).toBe('valid');
  expect(at(sign('s3cret', body, NOW_MS - 301_000))).toBe('too old');
  expect(at(sign('s3cret', body, NOW_MS + 301_000))).toBe('from the future');
  expect(at(sign('wrong', body, 0))).toBe('wrong');
});

test.each([null, ''])('no header is missing', (header) => {
  expect(at(header)).toBe('missing');
});

test.each(['x', 't=1', 'v1=00', 't=x,v1=00', `t=1,v1=${'g'.repeat(64)}`, `t=1,v1=${'0'.repeat(63)}`, 't=,v1='])(
  'a header without time or digest is malformed: %s',
  (header) => {
    expect(at(header)).toBe('malformed');
  },
);

test('who gets replies verifies them by what the package exports, header and body as Node gives them', () => {
  const limits = { secrets: ['s3cret'], nowMs: NOW_MS, toleranceMs: 300_000 };
  const headers: Record<string, string | undefined> = { [SIGNATURE_HEADER]: signWebhook('s3cret', 'text', NOW_MS) };

  expect(verifyWebhook(headers['x-botmesh-signature'], 'text', limits)).toBe('valid');
  expect(verifyWebhook(headers['x-other'], 'text', limits)).toBe('missing');
});

test('a digest of a platform is of all its parts in their order, and by one of the secrets', () => {
  const digest = createHmac('sha256', 'key').update('v0:1:body').digest('hex');

  expect(isHmac(digest, ['other', 'key'], 'v0:', '1:', new TextEncoder().encode('body'))).toBe(true);
  expect(isHmac(digest.toUpperCase(), ['key'], 'v0:1:body')).toBe(true);
  expect(isHmac(digest, ['key'], 'body', 'v0:1:')).toBe(false);
  expect(isHmac(digest, ['other'], 'v0:1:body')).toBe(false);
  expect(isHmac(digest, [], 'v0:1:body')).toBe(false);
  for (const odd of ['', digest.slice(1), `${digest}0`, 'g'.repeat(64), `${digest}\n`]) {
    expect(isHmac(odd, ['key'], 'v0:1:body')).toBe(false);
  }
});

test('a secret is the same, or not, whatever its length', () => {
  expect(isSameSecret('secret', 'secret')).toBe(true);
  for (const given of ['', 'secre', 'secret ', 'Secret']) expect(isSameSecret(given, 'secret')).toBe(false);
});
