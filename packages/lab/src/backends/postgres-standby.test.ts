import { expectKept } from '../../testing/expect-kept.js';
import { postgresStandby } from './postgres-standby.js';

expectKept(postgresStandby);
