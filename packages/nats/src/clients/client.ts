/** What is asked of a connection to NATS: one of @nats-io/transport-node 3 is one. Types only. */
export interface NatsMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly reply?: string;
  readonly headers?: NatsHeaders;
}

export interface NatsHeaders {
  readonly code: number;
  readonly description: string;
  get(name: string): string;
}

export interface NatsSubscription {
  unsubscribe(): void;
}

export interface NatsServerInfo {
  readonly server_id: string;
  readonly version: string;
  readonly max_payload: number;
  readonly jetstream?: boolean;
  readonly cluster?: string;
  readonly domain?: string;
}

export interface NatsClient {
  /** Undefined while it is not connected: what is published then waits, and reaches another server process. */
  readonly info?: NatsServerInfo | undefined;
  publish(subject: string, payload?: Uint8Array | string, options?: { reply?: string; headers?: never }): void;
  subscribe(
    subject: string,
    options: { callback: (error: Error | null, message: NatsMessage) => void },
  ): NatsSubscription;
  request(subject: string, payload?: Uint8Array | string, options?: { timeout: number }): Promise<NatsMessage>;
  status(): AsyncIterable<{ readonly type: string; readonly error?: unknown }>;
  isClosed(): boolean;
  close(): Promise<void>;
}
