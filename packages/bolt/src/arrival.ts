import type { Keys } from '@botmesh/core/spi';
import { chatOf, idOf as idOfArrival } from '@botmesh/slack/spi';
import type { Body } from './bolt.js';

// What Slack delivers is the same for a framework and for a provider, and so are the rules.
export { kindOf, nameOf } from '@botmesh/slack/spi';

/** What must be serial: each thread, each channel, or what a function says of a body. See `MeshOptions.keys`. */
export type Keying = 'thread' | 'channel' | ((body: Body) => Keys);

/** A message that mentions the app comes as two events, and the app has a listener for each. */
export function idOf(body: Body): string {
  return idOfArrival(body, 'two');
}

export function keysOf(body: Body, keying: Keying): Keys {
  return typeof keying === 'function' ? keying(body) : chatOf(body, keying);
}
