export { RedisStore, type RedisStoreOptions } from './RedisStore.js';
