import { ConfigError, checkOptionNames, shown } from '@botmesh/core/spi';
import { WhatsAppError } from './error-codes.js';
import type { Status, Update } from './updates.js';

export interface WhatsAppOptions {
  /** The access token of a system user, with `whatsapp_business_messaging`. Or what gives that of a phone number id. */
  token: string | ((phoneNumberId: string) => string | Promise<string>);
  /** The app's secret, by which Meta signs. Several while it changes: each may verify. */
  appSecret: string | readonly string[];
  /** A text of your own, which you also enter at Meta where the webhook is set up. */
  verifyToken: string;
  /** The ids of the numbers that this bot serves; what is written to others goes to `onUpdate`. Default: every number of the app. */
  phoneNumberIds?: readonly string[];
  /** The only path that is answered. Default: every path. */
  path?: string;
  /** Longer bodies are refused with 413. Default 3 MiB, which is the most that Meta sends. */
  maxBytes?: number;
  /** How long the Graph API may take to answer a call, in milliseconds. Default 20,000. */
  timeoutMs?: number;
  /** Default `v24.0`. */
  apiVersion?: string;
  /** Default `https://graph.facebook.com`. */
  apiUrl?: string | URL;
  /**
   * Hears what became of messages that were sent: `sent`, `delivered`, `read`, `failed`. On the replica that Meta called,
   * at least once each, in no order. When it throws, Meta is told to deliver the call again.
   */
  onStatus?: (status: Status) => unknown;
  /** Hears of everything else that Meta tells, such as the approval of a template. As `onStatus`. */
  onUpdate?: (update: Update) => unknown;
  /** Hears the id that a message was given when it was sent: statuses, reactions and replies name it. Must not throw. */
  onSent?: (sent: Sent) => void;
}

export interface Sent {
  readonly chat: string;
  readonly id: string;
  /** The idempotency key of the reply. */
  readonly key: string;
}

/** The options, as the rest of the package needs them. */
export interface Settings {
  readonly tokenOf: (phoneNumberId: string) => Promise<string>;
  readonly secrets: readonly string[];
  readonly verifyToken: string;
  readonly serves: (phoneNumberId: string) => boolean;
  readonly path: string | undefined;
  readonly maxBytes: number;
  readonly timeoutMs: number;
  /** With the version, without a slash at its end. */
  readonly baseUrl: string;
  readonly onStatus: (status: Status) => unknown;
  readonly onUpdate: (update: Update) => unknown;
  readonly onSent: (sent: Sent) => void;
}

const NAMES: { readonly [Name in keyof Required<WhatsAppOptions>]: true } = {
  token: true,
  appSecret: true,
  verifyToken: true,
  phoneNumberIds: true,
  path: true,
  maxBytes: true,
  timeoutMs: true,
  apiVersion: true,
  apiUrl: true,
  onStatus: true,
  onUpdate: true,
  onSent: true,
};

const IGNORE = (): void => {};

/** @throws ConfigError naming the option, what was found and what is expected, and never what a secret is */
export function settle(options: WhatsAppOptions): Settings {
  if (options === undefined) {
    throw new ConfigError(
      'whatsapp(): no options. Pass { token, appSecret, verifyToken }: README.md says where they are.',
    );
  }
  checkOptionNames('whatsapp()', options, NAMES);
  const { token, path, maxBytes = 3 * 1024 * 1024, timeoutMs = 20_000, apiVersion = 'v24.0' } = options;
  checkCredentials(options);
  checkNumbers(options.phoneNumberIds);
  if (path !== undefined && !(typeof path === 'string' && path.startsWith('/'))) {
    throw new ConfigError(`whatsapp(): path is ${shown(path)}. Begin it with a slash, or leave it out.`);
  }
  checkRange('maxBytes', maxBytes, Number.MAX_SAFE_INTEGER, 'bytes');
  checkRange('timeoutMs', timeoutMs, 2 ** 31 - 1, 'milliseconds');
  if (typeof apiVersion !== 'string' || !/^v\d+\.\d+$/.test(apiVersion)) {
    throw new ConfigError(`whatsapp(): apiVersion is ${shown(apiVersion)}. Give one as v24.0, or leave it out.`);
  }
  for (const name of ['onStatus', 'onUpdate', 'onSent'] as const) {
    const listener: unknown = options[name];
    if (listener === undefined || typeof listener === 'function') continue;
    throw new ConfigError(`whatsapp(): ${name} is ${shown(listener)}. Pass a function, or leave it out.`);
  }
  const ids = options.phoneNumberIds === undefined ? undefined : new Set(options.phoneNumberIds);
  return {
    tokenOf: tokensOf(token),
    secrets: typeof options.appSecret === 'string' ? [options.appSecret] : [...options.appSecret],
    verifyToken: options.verifyToken,
    serves: (id) => ids?.has(id) ?? true,
    path,
    maxBytes,
    timeoutMs,
    baseUrl: `${originOf(options.apiUrl)}/${apiVersion}`,
    onStatus: options.onStatus ?? IGNORE,
    onUpdate: options.onUpdate ?? IGNORE,
    onSent: options.onSent ?? IGNORE,
  };
}

function checkCredentials({ token, appSecret, verifyToken }: WhatsAppOptions): void {
  if (typeof token !== 'function' && !isText(token)) {
    throw new ConfigError(
      `whatsapp(): token is ${missing(token)}. Pass the access token of a system user, or a function that gives one.`,
    );
  }
  // A line break would end the header, and comes with tokens read from files.
  if (typeof token === 'string' && /\s/.test(token)) {
    throw new ConfigError('whatsapp(): token has white space in it. Trim it.');
  }
  const secrets: readonly unknown[] = Array.isArray(appSecret) ? appSecret : [appSecret];
  if (secrets.length === 0 || !secrets.every(isText)) {
    throw new ConfigError(
      `whatsapp(): appSecret is ${missing(appSecret)}. Pass the app secret (App settings, Basic), or several while it changes.`,
    );
  }
  if (!isText(verifyToken)) {
    throw new ConfigError(
      `whatsapp(): verifyToken is ${missing(verifyToken)}. Pass the text that you enter at Meta where the webhook is set up.`,
    );
  }
}

function checkNumbers(ids: unknown): void {
  if (ids === undefined) return;
  if (Array.isArray(ids) && ids.length > 0 && ids.every((id) => typeof id === 'string' && /^[^\s:]+$/.test(id))) return;
  throw new ConfigError(
    'whatsapp(): phoneNumberIds is no list of ids. Give the ids of the numbers (not the numbers) as texts, or leave it out.',
  );
}

function checkRange(name: string, value: unknown, most: number, unit: string): void {
  if (typeof value === 'number' && value > 0 && value <= most) return;
  throw new ConfigError(`whatsapp(): ${name} is ${shown(value)}. Give a number of ${unit} above 0.`);
}

function originOf(apiUrl: unknown = 'https://graph.facebook.com'): string {
  const url = URL.canParse(String(apiUrl)) ? new URL(String(apiUrl)) : undefined;
  const isLoopback = url !== undefined && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname);
  if (url !== undefined && (url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback))) {
    return `${url.origin}${url.pathname}`.replace(/\/+$/, '');
  }
  throw new ConfigError(
    'whatsapp(): apiUrl is no https address, nor an http one of this machine. The token would travel in the clear.',
  );
}

function tokensOf(token: WhatsAppOptions['token']): Settings['tokenOf'] {
  if (typeof token === 'string') return async () => token;
  return async (phoneNumberId) => {
    let given: unknown;
    try {
      given = await token(phoneNumberId);
    } catch (cause) {
      throw new WhatsAppError('token', 'nothing was sent: the function token threw.', { cause });
    }
    if (isText(given) && !/\s/.test(given)) return given;
    throw new WhatsAppError(
      'token',
      `nothing was sent: the function token gave ${missing(given)}. Give a text without space.`,
    );
  };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function missing(value: unknown): string {
  return value === undefined ? 'missing' : value === '' ? 'empty' : shown(value);
}
