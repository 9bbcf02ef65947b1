// What every state store checks before it writes or reads anything.
import { BadInputError } from '../errors.js';
import { kindOf, notPlain } from './plain-data.js';

/** What a bot puts around a state does not count against how deep that may be. */
const WRAPPED = -8;

/** @throws BadInputError when it is not a string */
export function checkStateKey(key: unknown): void {
  if (typeof key !== 'string') throw new BadInputError(`state: key is ${kindOf(key)}, expected a string.`);
}

/**
 * Checks what `save` was given. Answers the value's JSON.
 *
 * @throws BadInputError when the key is no string, the fence no safe integer from 0 up, or the value no plain JSON data
 */
export function checkStateWrite(key: unknown, value: unknown, fence: unknown): string {
  checkStateKey(key);
  if (!Number.isSafeInteger(fence) || (fence as number) < 0) {
    const found = typeof fence === 'number' ? String(fence) : kindOf(fence);
    throw new BadInputError(`state: fence is ${found}, expected the fence of a turn, a whole number from 0 up.`);
  }
  const problem = notPlain(value, 'value', WRAPPED);
  if (problem !== undefined) throw new BadInputError(`state: ${problem}, expected plain JSON data.`);
  return JSON.stringify(value);
}
