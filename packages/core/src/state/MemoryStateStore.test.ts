import { describe, test } from 'vitest';
import { stateConformance } from '../testing/state-conformance.js';
import { MemoryStateStore } from './MemoryStateStore.js';

describe('memory state', () => {
  const tests = stateConformance({ name: 'memory', open: async () => ({ store: new MemoryStateStore() }) });

  test.each(tests)('$title', ({ run }) => run());
});
