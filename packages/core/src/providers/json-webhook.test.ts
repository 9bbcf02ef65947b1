import { expect, test } from 'vitest';
import { BadInputError, CoordinationUnavailableError } from '../errors.js';
import { jsonWebhook } from './json-webhook.js';
import type { Intake } from './provider.js';

const receive = jsonWebhook({
  header: 'x-secret',
  secret: 'sesame',
  path: '/hook',
  maxBytes: 100,
  read: ({ chat }) => (typeof chat === 'string' ? { chat, id: '1', text: '' } : 'chat: expected a string'),
});

const accepts: Intake = async () => 'accepted';

async function status(
  body: string | undefined,
  more: RequestInit & { path?: string; intake?: Intake } = {},
): Promise<number> {
  const { path = '/hook', intake = accepts, ...init } = more;
  const headers = { 'x-secret': 'sesame', ...(init.headers as Record<string, string> | undefined) };
  const request = new Request(`http://localhost${path}`, { method: 'POST', body: body ?? null, ...init, headers });
  return (await receive(request, intake)).status;
}

test('only a POST to the path that shows the secret is read', async () => {
  const never: Intake = () => Promise.reject(new Error('it was read'));

  expect(await status('{"chat":"k"}', { path: '/other', intake: never })).toBe(404);
  expect(await status(undefined, { method: 'GET', intake: never })).toBe(405);
  for (const secret of ['-', 'sesam', 'sesamee', 'SESAME']) {
    expect(await status('{"chat":"k"}', { headers: { 'x-secret': secret }, intake: never })).toBe(401);
  }
});

test('a body that is too long, no JSON, no object or no message is refused', async () => {
  expect(await status(JSON.stringify({ chat: 'k'.repeat(100) }))).toBe(413);
  for (const body of ['', '{', '[]', 'null', '"k"', '{}', '{"chat":5}']) expect(await status(body)).toBe(400);
});

test('200 is answered when the message is taken in, 503 when it is not, 400 when it can never be', async () => {
  const body = '{"chat":"k"}';
  const fails =
    (error: Error): Intake =>
    () =>
      Promise.reject(error);

  expect(await status(body)).toBe(200);
  expect(await status(body, { intake: async () => 'duplicate' })).toBe(200);
  expect(await status(body, { intake: fails(new CoordinationUnavailableError('unavailable', 'away')) })).toBe(503);
  expect(await status(body, { intake: fails(new BadInputError('no')) })).toBe(400);
});
