// For whoever writes a bot.
export { Bot, type StopOptions } from './bot/Bot.js';
export type { BroadcastMessage, BroadcastOptions, BroadcastProgress } from './bot/broadcast.js';
export type { AnyContext, ChatState, Context, HeldBy, JobContext, Matched } from './bot/Context.js';
export type { BotEvents, UnknownSend } from './bot/events.js';
export { type AskOptions, type Conversation, type Flow, type FlowOptions, flow, type Text } from './bot/flow.js';
export type { Match, OfKind } from './bot/match.js';
export type { Middleware, Next } from './bot/middleware.js';
export type { BotOptions, ErrorHook, StateOptions } from './bot/options.js';
export type { Parked } from './bot/parked.js';
export type { Rejected, RejectedHook } from './bot/rejected.js';
export type { Job } from './bot/schedule/Job.js';
export type { ScheduleOptions, When } from './bot/schedule/Schedules.js';
export type { SignalOptions } from './bot/signals.js';
export type { Coordinator, CoordinatorEvents } from './coordination/types.js';
export {
  BadInputError,
  BotmeshError,
  CancelledError,
  ConfigError,
  CoordinationUnavailableError,
  DeliveryError,
  DeliveryUnknownError,
  ERROR_CODES,
  type ErrorCode,
  InvalidStateError,
  LeaseLostError,
  type LeaseLostReason,
  LifecycleError,
  MiddlewareError,
  NewerVersionError,
  RateLimitedError,
  StaleFenceError,
  type StateIssue,
  SupersededByNewerError,
  TicketError,
  TooLongError,
  TurnLimitError,
} from './errors.js';
export type { ChatJob, Message } from './pipeline/envelope.js';
export type { Ended, How, Named } from './pipeline/fate.js';
export type { Held } from './pipeline/Holds.js';
export type { CollectOptions, Overlap, OverlapByKind, OverlapMode } from './pipeline/overlap.js';
export type { Rate, Rates } from './pipeline/Pacer.js';
export type { UnknownSends } from './pipeline/sends.js';
export type { Progress } from './pipeline/setup.js';
export type { Provider, Reply } from './providers/provider.js';
export {
  SIGNATURE_HEADER,
  sign as signWebhook,
  type Verdict as WebhookVerdict,
  verify as verifyWebhook,
} from './providers/signature.js';
export { type TerminalOptions, terminal } from './providers/terminal.js';
export { type WebhookOptions, webhook } from './providers/webhook.js';
export { MemoryStateStore } from './state/MemoryStateStore.js';
export type { SchemaIssue, SchemaResult, StandardSchema, StateShape } from './state/schema.js';
export type { StateStore } from './state/state-store.js';
