import type { Provider } from '../providers/provider.js';

/** A message that the suite lets the platform deliver. */
export interface SuiteMessage {
  readonly id: string;
  readonly chat: string;
  readonly text: string;
}

/** A provider under test, with a platform that the test plays. */
export interface ProviderSubject {
  readonly name: string;
  readonly open: () => Promise<OpenProvider>;
  /** What the platform calls the chat or message that the suite calls `ana` or `m1`. Default: the same. */
  readonly naming?: Partial<Naming>;
  /** How the platform calls a provider with a webhook. Without it, that is not tested. */
  readonly webhook?: WebhookPlatform;
  /** What must be in no answer and no error: tokens, secrets. */
  readonly secrets?: readonly string[];
  /** Titles of tests that it cannot pass, with the reason. */
  readonly lacks?: Readonly<Record<string, string>>;
}

export interface Naming {
  chat(name: string): string;
  id(name: string): string;
}

export interface OpenProvider {
  readonly provider: Provider;
  /**
   * Lets the platform deliver a message, as it really would, and tells whether the platform was told that it is taken
   * in. Platforms that tell nothing always answer true.
   */
  readonly deliver: (message: SuiteMessage) => Promise<boolean>;
  /** What reached the platform, in order, by the platform's names of the chats. */
  readonly sent: () => readonly { chat: string; text: string }[];
  /** Makes the platform refuse the next send. Without it, that is not tested. */
  readonly refuseNextSend?: () => void;
  readonly close?: () => Promise<void>;
}

/** The calls of a platform, for the provider that `open` makes. */
export interface WebhookPlatform {
  /** The limit that the provider was given. */
  readonly maxBytes: number;
  /** The body by which these messages are delivered: one message, or several where the platform batches. */
  readonly body: (messages: readonly SuiteMessage[]) => string;
  /** A call with this body, signed as the platform signs. */
  readonly call: (body: string | Uint8Array<ArrayBuffer>) => Request;
  /** The same call by somebody who does not know the secret. */
  readonly forge: (body: string | Uint8Array<ArrayBuffer>) => Request;
  /** Whether one call may bring several messages. */
  readonly batches?: boolean;
  /** Bodies of calls that bring no message of a chat: a status, a challenge. They are answered with success. */
  readonly events?: readonly string[];
}
