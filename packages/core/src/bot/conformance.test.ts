import { describe, test } from 'vitest';
import { botConformance } from '../testing/bot-conformance/suite.js';
import { memorySubject } from '../testing/memory-subject.js';

describe('bots on the memory coordinator', () => {
  for (const { title, run } of botConformance(memorySubject())) test(title, run);
});
