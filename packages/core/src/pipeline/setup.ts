import type { Coordinator, Mailroom, Ticket } from '../coordination/types.js';
import type { Provider } from '../providers/provider.js';
import type { StateStore } from '../state/state-store.js';
import type { Clock } from '../time/clock.js';
import type { Attempt } from './Attempt.js';
import type { AccountGate } from './accounts/AccountGate.js';
import type { Message } from './envelope.js';
import type { EndDetail, How, Named } from './fate.js';
import type { Load } from './Load.js';
import type { OneByOne } from './OneByOne.js';
import type { Rules } from './overlap.js';
import type { Pacer } from './Pacer.js';
import type { StateOutages } from './StateOutage.js';
import type { UnknownSends } from './sends.js';

/** A message with its place, on the way to its turn. */
export interface Work {
  readonly ticket: Ticket;
  readonly id: string | undefined;
  /** The message, or its stored form when another replica took it in. */
  readonly content: Message | string;
  /** 1 for the first try. */
  readonly attempt: number;
  /** Whether it was granted as it came, so that nothing waited behind it then. */
  readonly wasFree?: boolean;
}

/** What can be told to a turn that runs. */
export interface Hearer {
  hear(note: string): void;
}

/** A sign of life of a handler. */
export interface Progress extends Named {
  readonly chat: string;
  readonly note: string;
}

/** What all turns of a Bot share. */
export interface TurnSetup {
  /** Whether the backend is away, and this process goes by its own order. */
  readonly isLocal: boolean;
  readonly coordinator: Coordinator;
  /** Keeps turns of the mesh and of this process alone apart. Undefined where there are none of the latter. */
  readonly oneByOne: OneByOne | undefined;
  /** Whether the coordinator keeps messages. Otherwise they live and die with this process, and retries are made here. */
  readonly isDurable: boolean;
  /** What the coordinator can do beyond that. Undefined for one that cannot. */
  readonly mail: Mailroom | undefined;
  /** Whether what waits here is another replica's to handle when the Bot stops. */
  readonly passesOn: boolean;
  /** The turns that run here, by chat, where no mailroom can reach them. */
  readonly running: Map<string, Hearer>;
  readonly rules: Rules;
  readonly store: StateStore;
  /** What the store cannot do for a while, as all turns of the Bot see it. */
  readonly outages: StateOutages;
  readonly provider: Provider;
  readonly clock: Clock;
  readonly load: Load;
  /** Aborts when the Bot stops. */
  readonly stopping: AbortSignal;
  /** Lets messages begin where their account is. Undefined where all may begin here. */
  readonly gate: AccountGate | undefined;
  readonly maxAttempts: number;
  /** How long the handlers of one message may run. Undefined for no limit. */
  readonly maxTurnMs: number | undefined;
  /** How long they may run at all when they report progress. */
  readonly maxProgressMs: number;
  /** How long handlers that were asked to end may take. */
  readonly graceMs: number;
  /** Keeps the rates of sends. Undefined where there are none. */
  readonly pacer: Pacer | undefined;
  /** What to do about a reply that may have left before. Undefined where replies are not put on record before they leave. */
  readonly unknownSends: UnknownSends | undefined;
  /** Hears of such a reply. */
  unknownSend(chat: string, message: Named, did: 'resent' | 'dropped'): void;
  /** How long to hold the chat after the given attempt failed. */
  retryDelayMs(attempt: number): number;
  /** The user's part. What it throws fails the attempt. */
  handle(attempt: Attempt): unknown;
  /** Hears of every failed attempt while the turn is still held. Must not reject. */
  failed(error: unknown, attempt: Attempt | undefined, work: Work): Promise<void>;
  /** Hears that a newer version wrote what this replica cannot read, before the message is passed on. */
  metNewer(): void;
  /** Hears of a message that nobody will handle. */
  dropped(work: Work, why: string): void;
  /** Whether anybody listens to `ended`. */
  hearsEnds(): boolean;
  /** Hears of the end of every message, of this place and of those behind it. */
  ended(chat: string, message: Named, how: How, more: EndDetail | undefined): void;
  progressed(progress: Progress): void;
}
