export { nodeListener } from '@botmesh/core/spi';
export type { Replica, ReplicateOptions, WebhookOptions } from './options.js';
export { replicate } from './replicate.js';
export { sequentialize } from './sequentialize.js';
export { sessionStore } from './session-store.js';
