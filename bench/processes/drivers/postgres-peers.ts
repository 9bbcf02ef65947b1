import { peer } from '../peer.js';
import type { Backend } from '../subject.js';
import { backend as postgres } from './postgres.js';

const LOCKING = ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b'];
const QUEUEING = ['W3', 'W2b'];

/** The same as `postgres`, beside what others use for the work. */
export const backend: Backend = {
  ...postgres,
  name: 'postgres-peers',
  loads: LOCKING,
  subjects: [
    ...postgres.subjects,
    peer('Chat SDK, lock', { file: 'chat-sdk.mjs', name: 'lock', engine: 'postgres' }, LOCKING),
    peer('advisory lock', { file: 'advisory.mjs', name: 'advisory' }, LOCKING),
    peer('Chat SDK, queue', { file: 'chat-sdk.mjs', name: 'queue', engine: 'postgres' }, QUEUEING),
    peer('graphile-worker', { file: 'queues.mjs', name: 'graphileWorker' }, QUEUEING),
    peer('pg-boss', { file: 'queues.mjs', name: 'pgBoss' }, ['W2b']),
  ],
};
