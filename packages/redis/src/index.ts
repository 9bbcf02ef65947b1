export { RedisCoordinator, type RedisCoordinatorOptions } from './RedisCoordinator.js';
export { RedisStateStore, type RedisStateStoreOptions } from './RedisStateStore.js';
