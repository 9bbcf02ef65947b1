import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';

/** A disk in memory where there is one: nothing of a server here needs to outlive its test. */
export const PLACE = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
