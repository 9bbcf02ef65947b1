// For whoever writes a bot.
export { Bot, type StopOptions } from './bot/Bot.js';
export type { ChatState, Context } from './bot/Context.js';
export { type AskOptions, type Conversation, type Flow, type FlowOptions, flow, type Text } from './bot/flow.js';
export type { Match } from './bot/match.js';
export type { Middleware, Next } from './bot/middleware.js';
export type { BotOptions, ErrorHook } from './bot/options.js';
export type { Coordinator, CoordinatorEvents } from './coordination/types.js';
export {
  BadInputError,
  BotmeshError,
  CancelledError,
  ConfigError,
  CoordinationUnavailableError,
  DeliveryError,
  ERROR_CODES,
  type ErrorCode,
  LeaseLostError,
  type LeaseLostReason,
  LifecycleError,
  MiddlewareError,
  RateLimitedError,
  StaleFenceError,
  SupersededByNewerError,
  TicketError,
  TurnLimitError,
} from './errors.js';
export type { Message } from './pipeline/envelope.js';
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
export type { StateStore } from './state/state-store.js';
