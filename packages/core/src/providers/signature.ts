import { createHash, createHmac, timingSafeEqual } from 'node:crypto';

/** The header that carries the signature: `t=<seconds since 1970>,v1=<hex>`, several `v1` where secrets change. */
export const SIGNATURE_HEADER = 'x-botmesh-signature';

/** Only `valid` is good: compare with it, as every verdict is a text and so counts as true. */
export type Verdict = 'valid' | 'missing' | 'malformed' | 'wrong' | 'too old' | 'from the future';

/** The header's value for `body`: HMAC-SHA256 over `<seconds>.<body>`. Says nothing about who may see the body. */
export function sign(secret: string, body: string | Uint8Array, atMs: number): string {
  const seconds = Math.floor(atMs / 1000);
  return `t=${seconds},v1=${digest(secret, seconds, body).toString('hex')}`;
}

/**
 * Whether `header` signs `body` with one of `secrets`, not longer than `toleranceMs` from now. Compares in constant time.
 * A body may be sent again within that time: use message ids against that.
 */
export function verify(
  header: string | null | undefined,
  body: string | Uint8Array,
  { secrets, nowMs, toleranceMs }: { secrets: readonly string[]; nowMs: number; toleranceMs: number },
): Verdict {
  const claim = readHeader(header);
  if (typeof claim === 'string') return claim;
  const isRight = secrets.some((secret) => {
    const wanted = digest(secret, claim.seconds, body);
    return claim.digests.some((found) => timingSafeEqual(found, wanted));
  });
  // The time counts only when it is signed.
  if (!isRight) return 'wrong';
  const ageMs = nowMs - claim.seconds * 1000;
  if (ageMs > toleranceMs) return 'too old';
  return ageMs < -toleranceMs ? 'from the future' : 'valid';
}

/** Looks at the form only, so that a call without a signature costs nothing. */
export function readHeader(
  header: string | null | undefined,
): { seconds: number; digests: readonly Uint8Array[] } | 'missing' | 'malformed' {
  if (header === null || header === undefined || header === '') return 'missing';
  let seconds: number | undefined;
  const digests: Uint8Array[] = [];
  for (const part of header.split(',')) {
    const [name, value = ''] = part.trim().split('=', 2);
    if (name === 't' && /^\d{1,12}$/.test(value)) seconds = Number(value);
    if (name === 'v1' && /^[0-9a-f]{64}$/i.test(value)) digests.push(Buffer.from(value, 'hex'));
  }
  return seconds === undefined || digests.length === 0 ? 'malformed' : { seconds, digests };
}

function digest(secret: string, seconds: number, body: string | Uint8Array): Buffer {
  return createHmac('sha256', secret).update(`${seconds}.`).update(body).digest();
}

/** Whether both texts are the same, in a time that does not tell where they differ. */
export function isSameSecret(given: string, wanted: string): boolean {
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(hash(given), hash(wanted));
}
