// For whoever writes a backend or a provider.
export type { BringsState } from './bot/options.js';
export { type CoordinatorOptions, OPTION_NAMES as COORDINATOR_OPTION_NAMES } from './coordination/options.js';
export { recordFromJson, recordToJson } from './coordination/record/record-json.js';
export { isClockSane } from './coordination/record/step.js';
export { chat as keyOfChat, StoreCoordinator, type StoreCoordinatorOptions } from './coordination/StoreCoordinator.js';
export * from './coordination/store.js';
export * as transitions from './coordination/transitions.js';
export {
  type Entry as LedgerEntry,
  emptyRecord,
  type Ledger,
  type MeshRecord,
  type Message as LedgerMessage,
  type Moment,
  type Outgoing,
  type Queue as LedgerQueue,
  type Row as LedgerRow,
} from './coordination/transitions.js';
export type {
  AcquireTurnOptions,
  AdoptedMessage,
  ChatTurn,
  Coordinator,
  CoordinatorEvents,
  Inbox,
  Leadership,
  LetGo,
  Mailroom,
  MailTurn,
  Pace,
  ParkedMessage,
  Ticket,
  WaitingMessage,
} from './coordination/types.js';
export {
  BadInputError,
  BotmeshError,
  ConfigError,
  CoordinationUnavailableError,
  checkOptionNames,
  DeliveryError,
  LeaseLostError,
  LifecycleError,
  RateLimitedError,
  StaleFenceError,
} from './errors.js';
export type { IncomingMessage, Intake, Provider, Reply, SendContext } from './providers/provider.js';
export { checkStateKey, checkStateWrite } from './state/arguments.js';
export type { StateStore, StoredState, TransactionalStateStore, TurnTransaction } from './state/state-store.js';
export { type Clock, systemClock, type Timer } from './time/clock.js';
