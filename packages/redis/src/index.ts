export type { TlsOptions } from './clients/connection.js';
export { ServerUnfitError, type UnfitReason } from './clients/unfit.js';
export { RedisCoordinator, type RedisCoordinatorOptions } from './RedisCoordinator.js';
export { RedisStateStore, type RedisStateStoreOptions } from './RedisStateStore.js';
