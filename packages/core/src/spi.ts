// For whoever writes a backend or a provider.
export type { CoordinatorOptions } from './coordination/options.js';
export { StoreCoordinator, type StoreCoordinatorOptions } from './coordination/StoreCoordinator.js';
export * from './coordination/store.js';
export type {
  AcquireTurnOptions,
  AdoptedMessage,
  ChatTurn,
  Coordinator,
  CoordinatorEvents,
  Inbox,
  Leadership,
  Ticket,
} from './coordination/types.js';
export { type Clock, systemClock, type Timer } from './time/clock.js';
