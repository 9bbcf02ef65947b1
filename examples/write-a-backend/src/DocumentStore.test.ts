import {
  type ConformanceSubject,
  type ConformanceTest,
  coordinatorConformance,
  demandSameAnswers,
  inboxConformance,
  mailroomConformance,
  memoryStoreLab,
  type StoreLab,
  seededRandom,
  storeMesh,
  VirtualClock,
} from '@botmesh/core/testing';
import { describe, test } from 'vitest';
import { DocumentStore } from './DocumentStore.js';
import { MemoryDocument } from './MemoryDocument.js';

/** A shard's place: what stores are opened on, and what its server can be made to do. */
async function place(clock: VirtualClock) {
  const document = new MemoryDocument();
  await DocumentStore.create(document);
  let offsetMs = 0;
  return {
    document,
    open: () => new DocumentStore(document, () => clock.wallMs() + offsetMs),
    stepClock: (byMs: number) => {
      offsetMs += byMs;
    },
  };
}

async function lab(isOvertaken = () => false): Promise<StoreLab> {
  const { document, open, stepClock } = await place(new VirtualClock());
  document.isOvertaken = isOvertaken;
  return {
    store: open(),
    moveClock: stepClock,
    restart: () => document.restart(),
    wipe: () => document.wipe(),
    snapshot: async () => document.snapshot(),
    close: async () => {},
  };
}

const subject: ConformanceSubject = {
  name: 'a document',
  faults: ['stepClock', 'wipe', 'restart', 'rollback'],
  async open({ shards = 1, leaseMs = 12_000 } = {}) {
    const clock = new VirtualClock();
    const places = await Promise.all(Array.from({ length: shards }, () => place(clock)));
    return storeMesh({
      clock,
      leaseMs,
      shards,
      createStore: (shard) => places[shard]!.open(),
      server: {
        stepClock: (ms) => {
          for (const each of places) each.stepClock(ms);
        },
        restart: () => {
          for (const { document } of places) document.restart();
        },
        wipe: () => {
          for (const { document } of places) document.wipe();
        },
        snapshot: () => {
          const putBack = places.map(({ document }) => document.snapshot());
          return () => {
            for (const put of putBack) put();
          };
        },
      },
    });
  },
};

function declare(tests: readonly ConformanceTest[]): void {
  for (const each of tests) test(each.title, { skip: each.skip !== undefined }, () => each.run());
}

describe('steps in a document', () => {
  test('are answered as by the reference store', async () => {
    for (let seed = 1; seed <= 40; seed++) {
      await demandSameAnswers({ reference: memoryStoreLab, subject: () => lab(), seed, steps: 120 });
    }
  });

  test('are answered the same when others often come in between', async () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = seededRandom(seed);
      const subject = () => lab(() => random() < 0.4);
      await demandSameAnswers({ reference: memoryStoreLab, subject, seed, steps: 80 });
    }
  });
});

describe('a coordinator on a document', () => {
  declare(coordinatorConformance(subject));
  declare(mailroomConformance(subject));
});

describe('an inbox in a document', () => {
  declare(inboxConformance(subject));
});
