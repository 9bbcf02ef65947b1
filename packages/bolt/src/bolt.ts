// As much of Bolt as this binding uses, in the shape that Bolt 4 and 5 share.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { ConfigError } from '@botmesh/core/spi';

/** What Slack sent: JSON, or a form read into an object. */
export type Body = Readonly<Record<string, unknown>>;

// biome-ignore lint/suspicious/noExplicitAny: whatever Slack takes as an answer
export type Ack = (answer?: any) => Promise<void>;

/** What a receiver hands to its app. */
export interface BoltEvent {
  // biome-ignore lint/suspicious/noExplicitAny: as Bolt has it
  body: Record<string, any>;
  ack: Ack;
  retryNum?: number | undefined;
  retryReason?: string | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: as Bolt has it
  customProperties?: Record<string, any> | undefined;
}

/** An `App` of Bolt. */
export interface BoltApp {
  // biome-ignore lint/suspicious/noExplicitAny: one major's own type of event will do
  processEvent(event: any): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: the receiver's own arguments
  start(...args: any[]): Promise<unknown>;
  // biome-ignore lint/suspicious/noExplicitAny: the receiver's own arguments
  stop(...args: any[]): Promise<unknown>;
  readonly client: object;
}

/** Fields of an app that its types keep to themselves. */
export interface AppInside {
  receiver: ReceiverInside;
  middleware?: unknown;
}

export interface ReceiverInside {
  init(app: { processEvent(event: BoltEvent): Promise<void> }): void;
  /** Only the one of Socket Mode has it. */
  client?: SocketClient;
  /** Of the ones over HTTP, while they listen. */
  server?: unknown;
  processEventErrorHandler?: (failure: Failure) => Promise<boolean>;
  /** Of Bolt 5: longer bodies are refused. */
  bodyLimit?: unknown;
  /** Answers each request, where the receiver has a server of its own. */
  requestListener?: (request: IncomingMessage, response: ServerResponse) => unknown;
}

/** What a receiver tells of an event whose processing failed. Without `response` in Socket Mode. */
export interface Failure {
  error: unknown;
  response?: { headersSent: boolean; writeHead(status: number, headers?: Record<string, string>): void; end(): void };
}

/** The client of Socket Mode. */
export interface SocketClient {
  start(): Promise<unknown>;
  disconnect(): Promise<void>;
  on(event: string, listener: () => void): unknown;
  once(event: string, listener: () => void): unknown;
  off(event: string, listener: () => void): unknown;
  websocket?: { isActive(): boolean } | undefined;
}

/** @throws ConfigError when `app` is not what this binding knows */
export function insideOf(app: BoltApp): AppInside {
  const inside = app as unknown as Partial<AppInside> | null | undefined;
  if (typeof app !== 'object' || app === null || typeof app.processEvent !== 'function') {
    const found = app === null ? 'null' : typeof app;
    throw new ConfigError(`mesh(): expected an App of @slack/bolt, found ${found}. Pass what new App() gave.`);
  }
  if (typeof inside?.receiver?.init !== 'function') {
    throw new ConfigError('mesh(): this App has no receiver with init(). Pass an App of @slack/bolt 4 or 5.');
  }
  if (inside.receiver.server !== undefined || inside.receiver.client?.websocket !== undefined) {
    throw new ConfigError('mesh(): this App has been started. Call mesh() before app.start().');
  }
  return inside as AppInside;
}

/** What this copy of Bolt calls itself to Slack. Undefined where it does not say. */
export function versionOfApp(app: BoltApp): string | undefined {
  const { defaultHeaders, axios } = app.client as {
    defaultHeaders?: Record<string, unknown>;
    axios?: { defaults?: { headers?: Record<string, unknown> } };
  };
  const agent = (defaultHeaders ?? axios?.defaults?.headers)?.['User-Agent'];
  return typeof agent === 'string' ? /@slack:bolt\/(\d+\.\d+[^ ]*)/.exec(agent)?.[1] : undefined;
}
