// The shape of Baileys, as far as it is used. Baileys itself is the user's own, and passed in.

/** Why a connection ended, by the codes of Baileys' `DisconnectReason`. */
export const REASONS = {
  loggedOut: 401,
  forbidden: 403,
  connectionReplaced: 440,
  restartRequired: 515,
} as const;

export interface ConnectionUpdate {
  readonly connection?: 'open' | 'connecting' | 'close' | undefined;
  /** An error of @hapi/boom: its code is in `output.statusCode`. */
  readonly lastDisconnect?: { readonly error?: unknown } | undefined;
  readonly qr?: string | undefined;
}

/** A message as `messages.upsert` has it. Everything beside the key is handed on as it is. */
export interface WaMessage {
  readonly key?: {
    readonly remoteJid?: string | null | undefined;
    readonly id?: string | null | undefined;
    readonly fromMe?: boolean | null | undefined;
    readonly participant?: string | null | undefined;
  } | null;
  readonly [field: string]: unknown;
}

export interface Upsert {
  /** `notify` for what comes now, `append` for what came while nobody was connected, or was sent from here. */
  readonly type: string;
  readonly messages: readonly WaMessage[];
}

/** What `makeWASocket` gives. */
export interface WaSocket {
  readonly ev: {
    // biome-ignore lint/suspicious/noExplicitAny: each event has a type of its own
    on(event: any, listener: (payload: any) => void): unknown;
    // biome-ignore lint/suspicious/noExplicitAny: the same
    removeAllListeners?(event: any): unknown;
  };
  /** Closes the connection. */
  end(error: Error | undefined): unknown;
  // biome-ignore lint/suspicious/noExplicitAny: contents and options are between you and Baileys
  sendMessage(jid: string, content: any, options?: any): Promise<unknown>;
}

/** The code with which a connection was closed, if one is told. */
export function reasonOf(update: ConnectionUpdate): number | undefined {
  const error = update.lastDisconnect?.error as { output?: { statusCode?: unknown } } | undefined;
  const code = error?.output?.statusCode;
  return typeof code === 'number' ? code : undefined;
}
