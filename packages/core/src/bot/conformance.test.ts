import { describe, test } from 'vitest';
import { botConformance } from '../testing/bot-conformance/suite.js';
import { memorySubject } from '../testing/memory-subject.js';

describe('bots on the memory coordinator', () => {
  test.each(botConformance(memorySubject()))('$title', ({ run }) => run());
});
