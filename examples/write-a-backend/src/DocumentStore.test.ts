import { demandSameAnswers, memoryStoreLab, type StoreLab, seededRandom, VirtualClock } from '@botmesh/core/testing';
import { describe, test } from 'vitest';
import { DocumentStore } from './DocumentStore.js';
import { MemoryDocument } from './MemoryDocument.js';

async function documentLab(document = new MemoryDocument()): Promise<StoreLab> {
  const clock = new VirtualClock();
  let offsetMs = 0;
  await DocumentStore.create(document);
  return {
    store: new DocumentStore(document, () => clock.wallMs() + offsetMs),
    moveClock: (byMs) => {
      offsetMs += byMs;
    },
    restart: () => document.restart(),
    wipe: () => document.wipe(),
    snapshot: async () => document.snapshot(),
    close: () => document.close(),
  };
}

describe('a store in a document', () => {
  test('answers every step as the reference store', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      await demandSameAnswers({ reference: memoryStoreLab, subject: () => documentLab(), seed, steps: 120 });
    }
  });

  test('answers the same when others often come in between', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seededRandom(seed);
      const subject = async (): Promise<StoreLab> => {
        const document = new MemoryDocument();
        const lab = await documentLab(document);
        document.isOvertaken = () => random() < 0.4;
        return lab;
      };
      await demandSameAnswers({ reference: memoryStoreLab, subject, seed, steps: 80 });
    }
  });
});
