import { inHand } from '@botmesh/core/spi';
import type { Api, Transformer } from 'grammy';

/** Whatever an update does is refused once its turn is lost, and cut off when that happens meanwhile. */
const guard: Transformer = (prev, method, payload, signal) => {
  const hand = inHand();
  if (hand === undefined) return prev(method, payload, signal);
  hand.assertHeld();
  const both = signal === undefined ? hand.signal : AbortSignal.any([hand.signal, signal as AbortSignal]);
  return prev(method, payload, both as typeof signal);
};

/** Idempotent. */
export function guardSends(api: Api): void {
  if (!api.config.installedTransformers().includes(guard)) api.config.use(guard);
}
