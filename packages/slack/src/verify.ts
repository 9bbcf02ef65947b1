import { createHmac, timingSafeEqual } from 'node:crypto';

const WINDOW_MS = 300_000;

/** The two headers of a signed request. */
export interface Claim {
  readonly seconds: string;
  readonly digest: Buffer;
}

/** Looks at the form only, so that a call without a signature costs nothing. Undefined for what is none. */
export function claimOf(headers: Headers): Claim | undefined {
  const seconds = headers.get('x-slack-request-timestamp') ?? '';
  const signature = headers.get('x-slack-signature') ?? '';
  if (!/^\d{1,12}$/.test(seconds) || !/^v0=[0-9a-f]{64}$/.test(signature)) return undefined;
  return { seconds, digest: Buffer.from(signature.slice(3), 'hex') };
}

/** Whether one of `secrets` signs `body`, within five minutes of now. Compares in constant time. */
export function isSigned(
  { seconds, digest }: Claim,
  body: Uint8Array,
  secrets: readonly string[],
  nowMs: number,
): boolean {
  const isRight = secrets.some((secret) => {
    const wanted = createHmac('sha256', secret).update(`v0:${seconds}:`).update(body).digest();
    return timingSafeEqual(wanted, digest);
  });
  return isRight && Math.abs(nowMs - Number(seconds) * 1000) <= WINDOW_MS;
}
