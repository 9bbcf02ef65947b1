// For every test file: the report of a run says of each test of a suite what was done to its mesh.
import { afterEach } from 'vitest';
import { onRan } from '../../packages/core/src/testing/suite/ran.ts';

const ran = new Map();
onRan((each) => ran.set(each.title, each));

afterEach(({ task }) => {
  const conformance = ran.get(task.name);
  if (conformance !== undefined) Object.assign(task.meta, { conformance });
});
