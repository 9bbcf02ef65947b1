import type { StoreLab } from './store-lab.js';

/** What a lab may be able to do beyond the steps themselves. */
export type StoreAbility = 'moveClock' | 'restart' | 'wipe' | 'snapshot';

/** One fact about every store: what it needs, and what shows it. */
export interface StoreFact {
  readonly needs: readonly StoreAbility[];
  readonly show: (lab: StoreLab) => Promise<void>;
}
