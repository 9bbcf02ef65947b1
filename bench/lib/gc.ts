import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
// Or every collection would send what ran before back to the interpreter, and each round would measure cold code.
setFlagsFromString('--no-flush-bytecode');

/** Collects garbage now. Works also where the process was started without the flag for it. */
export const collectGarbage = runInNewContext('gc') as () => void;

/** Bytes in use on the heap once garbage is gone. */
export function heapBytes(): number {
  collectGarbage();
  collectGarbage();
  return process.memoryUsage().heapUsed;
}
