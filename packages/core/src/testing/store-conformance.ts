import type { StoreAbility } from './store-fact.js';
import { STORE_FACTS } from './store-facts.js';
import type { OpenStore } from './store-lab.js';

/** A store under test. */
export interface StoreSubject {
  readonly name: string;
  /** Opens an empty store, apart from every other one. It is closed after each test. */
  readonly open: OpenStore;
  /** What its lab has of the optional abilities. Tests that need another are skipped, with that reason. Default: none. */
  readonly can?: readonly StoreAbility[];
  /** Titles of tests that it cannot pass, with the reason. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export interface StoreTest {
  readonly title: string;
  /** Rejects when the fact does not hold. */
  readonly run: () => Promise<void>;
  readonly skip?: string;
}

/** What every step of every store must do, for any test runner: call `run` of each, unless `skip` tells why not. */
export function storeConformance(subject: StoreSubject): StoreTest[] {
  return Object.entries(STORE_FACTS).map(([title, fact]) => {
    const missing = fact.needs.filter((need) => !(subject.can ?? []).includes(need));
    const skip =
      subject.lacks?.[title] ?? (missing.length === 0 ? undefined : `${subject.name} cannot: ${missing.join(', ')}`);
    const run = async (): Promise<void> => {
      const lab = await subject.open();
      try {
        await fact.show(lab);
      } finally {
        await lab.close();
      }
    };
    return skip === undefined ? { title, run } : { title, run, skip };
  });
}
