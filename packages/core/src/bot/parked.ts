import type { Coordinator, Mailroom, ParkedMessage } from '../coordination/types.js';
import { ConfigError } from '../errors.js';
import { decode, type Message } from '../pipeline/envelope.js';

/** A message that failed too often: kept, skipped, and for somebody to decide about. */
export interface Parked {
  readonly chat: string;
  /** Names it for `bot.replay` and `bot.drop`. */
  readonly seq: number;
  readonly id: string | undefined;
  /** Undefined when this version cannot read it. */
  readonly message: Message | undefined;
  readonly attempts: number;
  /** What the last attempt threw, in a line. Undefined when its replica died. */
  readonly error: string | undefined;
}

export function parkedOf({ key, seq, id, body, attempts, error }: ParkedMessage): Parked {
  return { chat: key, seq, id, message: readable(body), attempts, error };
}

/** @throws ConfigError when no coordinator keeps the messages */
export function mailroomOf(mail: Mailroom | undefined, coordinator: Coordinator, call: string): Mailroom {
  if (mail !== undefined) return mail;
  throw new ConfigError(
    `${call}: replica ${coordinator.replicaId} has no coordinator that keeps messages, so that what fails too often is dropped. Pass one that does: RedisCoordinator of @botmesh/redis, for example.`,
  );
}

function readable(body: string): Message | undefined {
  try {
    return decode(body);
  } catch {
    return undefined;
  }
}
