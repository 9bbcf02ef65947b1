export { NatsCoordinator, type NatsCoordinatorOptions } from './NatsCoordinator.js';
export { NatsStateStore, type NatsStateStoreOptions } from './NatsStateStore.js';
