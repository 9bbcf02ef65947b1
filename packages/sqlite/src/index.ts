export type { DriverName } from './driver.js';
export { SqliteCoordinator, type SqliteCoordinatorOptions } from './SqliteCoordinator.js';
export { SqliteStateStore, type SqliteStateStoreOptions } from './SqliteStateStore.js';
export { type HostTime, SqliteStore, type SqliteStoreOptions } from './SqliteStore.js';
