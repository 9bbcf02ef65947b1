import { peer } from '../peer.js';
import type { Backend } from '../subject.js';
import { backend as redis } from './redis.js';

const LOCKING = ['W1', 'W1h', 'W2', 'W2p', 'W3', 'W2b'];
const QUEUEING = ['W3', 'W2b'];

/** The same as `redis`, beside what others use for the work. */
export const backend: Backend = {
  ...redis,
  name: 'redis-peers',
  loads: LOCKING,
  subjects: [
    ...redis.subjects,
    peer('Chat SDK, lock', { file: 'chat-sdk.mjs', name: 'lock', engine: 'redis' }, LOCKING),
    peer('redlock', { file: 'redis-locks.mjs', name: 'redlock' }, LOCKING),
    peer('redis-semaphore', { file: 'redis-locks.mjs', name: 'semaphore' }, LOCKING),
    peer('Chat SDK, queue', { file: 'chat-sdk.mjs', name: 'queue', engine: 'redis' }, QUEUEING),
    peer('BullMQ', { file: 'queues.mjs', name: 'bullmq' }, QUEUEING),
  ],
};
