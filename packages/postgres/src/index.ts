export { type MigrateOptions, migrate } from './migrate.js';
export { PostgresCoordinator, type PostgresCoordinatorOptions } from './PostgresCoordinator.js';
export { PostgresStateStore, type PostgresStateStoreOptions } from './PostgresStateStore.js';
export { type SqlOptions, sql } from './script.js';
