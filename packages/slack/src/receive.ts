import {
  answer,
  BadInputError,
  type CallRules,
  CoordinationUnavailableError,
  type Intake,
  LeaseLostError,
  LifecycleError,
  type Provider,
  readCall,
  readJson,
} from '@botmesh/core/spi';
import { type Answer, take } from './answer.js';
import { type Body, text } from './arrival.js';
import { refuseBody, refuseHeaders } from './verify.js';

export interface ReceiverSetup {
  readonly secrets: readonly string[];
  readonly path: string | undefined;
  readonly maxBytes: number;
  readonly hook: Answer | undefined;
}

/** Answers what Slack posts: 200 only when it is taken in, also when it was before; 503 lets Slack deliver it again. */
export function receiver({ secrets, path, maxBytes, hook }: ReceiverSetup): NonNullable<Provider['webhook']> {
  const rules: CallRules = { path, maxBytes, refuseHeaders, refuseBody: refuseBody(secrets, Date.now) };
  return async (request, intake) => {
    const bytes = await readCall(request, rules);
    if (bytes instanceof Response) return bytes;
    const body = bodyIn(bytes, request.headers.get('content-type') ?? '');
    if (typeof body === 'string') return answer(400, body);
    if (body.type === 'url_verification') return Response.json({ challenge: text(body.challenge) ?? '' });
    if (body.ssl_check !== undefined) return new Response(null);
    return takeCall(body, intake, hook);
  };
}

async function takeCall(body: Body, intake: Intake, hook: Answer | undefined): Promise<Response> {
  try {
    const done = await take(body, intake, hook);
    return done.answer === undefined ? new Response(null) : Response.json(done.answer);
  } catch (error) {
    if (isPassing(error)) return answer(503, 'not taken in; send it again', { 'retry-after': '1' });
    if (error instanceof BadInputError) return answer(400, 'it cannot be taken in');
    throw error;
  }
}

/** What the next delivery may find otherwise. */
function isPassing(error: unknown): boolean {
  return (
    error instanceof CoordinationUnavailableError || error instanceof LifecycleError || error instanceof LeaseLostError
  );
}

/** The body of a call, or what is wrong with it. An interaction is JSON in one field, and a command is a form. */
function bodyIn(bytes: Uint8Array, type: string): Body | string {
  if (!type.startsWith('application/x-www-form-urlencoded')) return known(readJson(bytes));
  const written = textIn(bytes);
  if (written === undefined) return 'the body is no form in UTF-8';
  const form = new URLSearchParams(written);
  const payload = form.get('payload');
  return known(payload === null ? Object.fromEntries(form) : readJson(Buffer.from(payload)));
}

function textIn(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** Slack delivers nothing that has none of these. */
function known(body: Body | string): Body | string {
  if (typeof body === 'string') return body;
  const named = [body.type, body.command, body.ssl_check].some((name) => text(name) !== undefined);
  const hasEvent = body.event === undefined || (typeof body.event === 'object' && body.event !== null);
  return named && hasEvent ? body : 'the body is nothing that Slack sends';
}
