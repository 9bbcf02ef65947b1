import { isHmac } from '@botmesh/core/spi';

const WINDOW_MS = 300_000;

/** The two headers of a signed request. */
interface Claim {
  readonly seconds: string;
  readonly digest: string;
}

/** What is wrong with the headers, so that a call without a signature costs nothing. Undefined when nothing is. */
export function refuseHeaders(headers: Headers): string | undefined {
  return claimOf(headers) === undefined ? 'x-slack-signature: missing or malformed' : undefined;
}

/** What is wrong with the signature: it must be by one of `secrets`, within five minutes of now. In constant time. */
export function refuseBody(secrets: readonly string[], nowMs: () => number) {
  return (headers: Headers, body: Uint8Array): string | undefined => {
    const claim = claimOf(headers);
    if (claim === undefined || !isHmac(claim.digest, secrets, `v0:${claim.seconds}:`, body)) {
      return 'x-slack-signature: wrong. Is signingSecret that of this app?';
    }
    // The time counts only when it is signed.
    const isNow = Math.abs(nowMs() - Number(claim.seconds) * 1000) <= WINDOW_MS;
    return isNow ? undefined : 'x-slack-request-timestamp: more than five minutes off';
  };
}

function claimOf(headers: Headers): Claim | undefined {
  const seconds = headers.get('x-slack-request-timestamp') ?? '';
  const digest = /^v0=([0-9a-f]{64})$/.exec(headers.get('x-slack-signature') ?? '')?.[1];
  return digest === undefined || !/^\d{1,12}$/.test(seconds) ? undefined : { seconds, digest };
}
