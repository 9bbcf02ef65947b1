import {
  COORDINATOR_OPTION_NAMES,
  type CoordinatorOptions,
  checkOptionNames,
  StoreCoordinator,
} from '@botmesh/core/spi';
import { checkDriver, type DriverName } from './driver.js';
import { checkPath, fileOf } from './namespace.js';
import { SqliteStore } from './SqliteStore.js';

export interface SqliteCoordinatorOptions extends CoordinatorOptions {
  /** The database file, on a local disk of the host that all replicas run on. Made when it is not there. */
  path: string;
  /** Replicas of one namespace are one mesh. Another one than `botmesh` has a file of its own beside `path`. */
  namespace?: string;
  /** The library to use. Default: better-sqlite3 if it is installed, else Node's own. */
  driver?: DriverName;
}

const NAMES = { ...COORDINATOR_OPTION_NAMES, path: true, namespace: true, driver: true } as const;

/** A mesh of the processes of one host, over one SQLite file. No server to run; a dead process is noticed at once. */
export class SqliteCoordinator extends StoreCoordinator {
  /** @throws ConfigError naming the option that cannot work */
  constructor(options: SqliteCoordinatorOptions) {
    checkPath('SqliteCoordinator', options);
    checkOptionNames('SqliteCoordinator', options, NAMES);
    const { path, namespace, driver } = options;
    checkDriver(driver);
    super({ ...options, stores: [new SqliteStore({ path: fileOf(path, namespace), driver })] });
  }
}
