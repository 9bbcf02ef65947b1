import { quoted } from '../quoting.js';
import { APPLY, LINE_TYPE } from './apply.js';
import { BEAT } from './beat.js';
import { createFunction, inSchema } from './functions.js';
import { JOIN_AND_LEAVE } from './join-leave.js';
import { OPERATION_FUNCTIONS } from './operations.js';
import { QUEUE_FUNCTIONS } from './queues.js';
import { SINGLE, SINGLE_TYPE } from './single.js';
import { STEP_FUNCTIONS, STEP_TYPE } from './step.js';
import { TABLES } from './tables.js';
import { VIEWS } from './view.js';

/** What makes the tables and functions of the mesh, in order. What was released is never changed. */
export function migrations(schema: string): readonly { version: number; sql: string }[] {
  const functions = [
    ...STEP_FUNCTIONS,
    ...QUEUE_FUNCTIONS,
    ...OPERATION_FUNCTIONS,
    ...APPLY,
    ...SINGLE,
    ...JOIN_AND_LEAVE,
    ...BEAT,
    ...VIEWS,
  ].map(createFunction);
  const first = [TABLES, STEP_TYPE, LINE_TYPE, SINGLE_TYPE, ...functions].join('\n');
  return [{ version: 1, sql: inSchema(first, quoted(schema)) }];
}
