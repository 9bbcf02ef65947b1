// For whoever writes a backend, a provider or a binding.
export {
  type Arrival,
  type Binding,
  type BindingOptions,
  bind,
  checkBinding,
  messageOf,
} from './binding/bind.js';
export { FencedSessions } from './binding/FencedSessions.js';
export { Hand, type HeldTurn, inHand } from './binding/hand.js';
export { type Answering, nodeListener } from './binding/node-listener.js';
export { checkPeer, type PeerRange, versionOf } from './binding/peer-version.js';
export { holding, type Keys, orderOf } from './binding/take-keys.js';
export type { BringsState } from './bot/options.js';
export { type CoordinatorOptions, OPTION_NAMES as COORDINATOR_OPTION_NAMES } from './coordination/options.js';
export { recordFromJson, recordToJson } from './coordination/record/record-json.js';
export { isClockSane } from './coordination/record/step.js';
export { chat as keyOfChat, StoreCoordinator, type StoreCoordinatorOptions } from './coordination/StoreCoordinator.js';
export * from './coordination/store.js';
export { carryMs } from './coordination/timing.js';
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
  DeliveryUnknownError,
  LeaseLostError,
  LifecycleError,
  RateLimitedError,
  StaleFenceError,
  shown,
  TooLongError,
} from './errors.js';
export { Accounts, type AccountsSetup, type Place, type Served } from './pipeline/accounts/Accounts.js';
export { inTime, type Limit } from './pipeline/in-time.js';
export {
  type Conflict,
  type LongPollingOptions,
  longPolling,
  type PollFault,
} from './pipeline/long-polling.js';
export { readBody } from './providers/body.js';
export { type JsonWebhookOptions, jsonWebhook } from './providers/json-webhook.js';
export type { IncomingMessage, Intake, Lead, Provider, Reply, SendContext } from './providers/provider.js';
export { isHmac, isSameSecret } from './providers/signature.js';
export { answer, type CallRules, readCall, readJson, takeAll } from './providers/webhook-call.js';
export { checkStateKey, checkStateWrite } from './state/arguments.js';
export type { StateStore, StoredState, TransactionalStateStore, TurnTransaction } from './state/state-store.js';
export { type Clock, systemClock, type Timer } from './time/clock.js';
