// For whoever writes a bot.
export type { Coordinator, CoordinatorEvents } from './coordination/types.js';
export {
  BadInputError,
  BotmeshError,
  ConfigError,
  CoordinationUnavailableError,
  DeliveryError,
  ERROR_CODES,
  type ErrorCode,
  LeaseLostError,
  type LeaseLostReason,
  LifecycleError,
  MiddlewareError,
  StaleFenceError,
  TicketError,
} from './errors.js';
