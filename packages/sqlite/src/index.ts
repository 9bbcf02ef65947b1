export type { DriverName } from './driver.js';
export { SqliteCoordinator, type SqliteCoordinatorOptions } from './SqliteCoordinator.js';
export { SqliteStore, type SqliteStoreOptions } from './SqliteStore.js';
