import { Bot, type ErrorHook, type StopOptions } from '@botmesh/core';
import { ConfigError, type Coordinator, checkOptionNames, type Mailroom } from '@botmesh/core/spi';
import type { Adapter, StateAdapter, WebhookOptions } from 'chat';
import { chatVersion, checkChatVersion } from './chat-version.js';
import { guardSends } from './guard-sends.js';
import { type Handled, handleIn } from './handle.js';
import { MeshState } from './MeshState.js';
import { receiver, type Webhook } from './receive.js';
import type { WebhookRoute } from './routes.js';
import { telegramRoute } from './telegram-route.js';

/** How long the parts of an album may be apart. */
const ALBUM = { mode: 'collect', quietMs: 300, maxWaitMs: 3_000 } as const;

export interface MeshChatOptions {
  /** How requests are told apart, by the adapter's name. Default: `telegramRoute()` for an adapter named `telegram`. */
  routes?: Readonly<Record<string, WebhookRoute>>;
  /**
   * What becomes of a message whose handler threw: `retry` it in its place, as often as the coordinator's `maxAttempts`
   * says, then park it; or `log` it and go on, as the SDK alone does. Default `retry`.
   */
  handlerErrors?: 'retry' | 'log';
  /** As of a Bot. */
  retryDelayMs?: number;
  maxTurnMs?: number;
  graceMs?: number;
  onError?: ErrorHook;
  log?: (line: string) => void;
}

const NAMES: { [Name in keyof Required<MeshChatOptions>]: true } = {
  routes: true,
  handlerErrors: true,
  retryDelayMs: true,
  maxTurnMs: true,
  graceMs: true,
  onError: true,
  log: true,
};

/** The methods of the SDK's `Chat` that are used. */
export interface ChatLike {
  readonly webhooks: object;
  getState(): StateAdapter;
  // biome-ignore lint/suspicious/noExplicitAny: a method of a class that is generic in the names
  getAdapter(name: any): unknown;
  initialize(): Promise<void>;
  shutdown(): Promise<void>;
}

/** A Chat on the mesh. */
export interface MeshChat {
  /** The Bot beneath: its events, parked messages, `cancel`, `handleSignals`. Stop it by `stop` here or there. */
  readonly bot: Bot;
  /**
   * Initializes the SDK, joins the mesh and begins to take webhooks in. Until then they are answered with 503.
   *
   * @throws ConfigError when another bot runs on the coordinator
   */
  start(): Promise<void>;
  /** Ends in good order: see `Bot.stop`. The SDK is shut down after the last turn. */
  stop(options?: StopOptions): Promise<void>;
  /** Answers `…/livez` and `…/readyz`; any other request with 404. */
  probe(request: Request): Promise<Response>;
}

const MODAL =
  'a webhook was called with onOpenModal, which is not done: the answer has left when the handler opens the modal. ' +
  "Let the adapter's route answer such requests at once.";

const bound = new WeakSet<object>();

/**
 * Puts a Chat on the mesh. From here on `chat.webhooks.<name>(request)` takes the request in before it answers: 200 only
 * when it is safe with the coordinator, 503 otherwise. The SDK gets it in its chat's turn, one at a time and in order, on
 * whichever replica, and the turn lasts until everything that was given to `waitUntil` has ended.
 *
 * A message is handled at least once: again, with all replies, when its handler threw or its replica died.
 *
 * @throws ConfigError for a Chat that is bound already, whose state is no MeshState, whose version is not known here, or
 * with an adapter that has no route
 */
export function meshChat(chat: ChatLike, options: MeshChatOptions = {}): MeshChat {
  checkOptionNames('meshChat()', options, NAMES);
  const state = stateOf(chat);
  checkChatVersion(chatVersion());
  const { routes: _routes, handlerErrors = 'retry', log = (line) => console.warn(line), ...rest } = options;
  if (handlerErrors !== 'retry' && handlerErrors !== 'log') {
    throw new ConfigError(`meshChat(): handlerErrors is '${String(handlerErrors)}'. Pass 'retry' or 'log'.`);
  }
  const webhooks = chat.webhooks as Record<string, Webhook>;
  const names = Object.keys(webhooks);
  const routes = routesOf(names, options.routes);
  const sdk: ReadonlyMap<string, Webhook> = new Map(names.map((name) => [name, webhooks[name]!.bind(webhooks)]));
  claim(chat, state);

  let hasWarned = false;
  const warnOfModal = (): void => {
    if (!hasWarned) log(`botmesh: WARNING: ${MODAL}`);
    hasWarned = true;
  };
  const arrivedFor = new WeakMap<Request, string>();
  const bot = new Bot({
    ...rest,
    log,
    coordinator: state.coordinator,
    state: state.store,
    ...(hasMailroom(state.coordinator) ? { overlap: { kinds: { album: ALBUM } } } : {}),
    provider: {
      name: 'chat-sdk',
      async start() {
        await chat.initialize();
        for (const name of names) if (isPolling(chat.getAdapter(name))) log(pollingWarning(name));
      },
      stop() {},
      close: () => chat.shutdown(),
      webhook: receiver({ routes, sdk, nameOf: (request) => arrivedFor.get(request), log }),
      send() {
        throw new ConfigError("meshChat(): the Bot beneath sends nothing. Reply by the SDK's thread.post().");
      },
    },
  });
  const propagateHandlerErrors = handlerErrors === 'retry';
  bot.use((ctx) => handleIn(ctx as Handled, { routes, sdk, propagateHandlerErrors }));

  for (const name of names) {
    guardSends(chat.getAdapter(name) as Adapter);
    webhooks[name] = (request: Request, given?: WebhookOptions) => {
      if (given?.onOpenModal !== undefined) warnOfModal();
      arrivedFor.set(request, name);
      return bot.webhook(request);
    };
  }
  return {
    bot,
    start: () => bot.start(),
    stop: (stopOptions) => bot.stop(stopOptions),
    probe: (request) => bot.webhook(request),
  };
}

function stateOf(chat: ChatLike): MeshState {
  const methods = ['getState', 'getAdapter', 'initialize', 'shutdown'] as const;
  const missing = methods.find((method) => typeof chat?.[method] !== 'function');
  if (missing !== undefined || typeof chat.webhooks !== 'object') {
    throw new ConfigError(
      `meshChat(): found ${typeof chat} without ${missing ?? 'webhooks'}(). Pass a Chat of the package chat.`,
    );
  }
  const state: unknown = chat.getState();
  if (state instanceof MeshState) return state;
  const found = (state as object | undefined)?.constructor.name ?? typeof state;
  throw new ConfigError(
    `meshChat(): the state is ${found}, whose marks lose what a dying replica had begun. ` +
      'Pass state: new MeshState({ coordinator, store }) to the Chat.',
  );
}

function routesOf(names: readonly string[], given: MeshChatOptions['routes'] = {}): ReadonlyMap<string, WebhookRoute> {
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new ConfigError(
      `meshChat(): there is a route for '${unknown}', but no such adapter. There are ${names.join(', ')}.`,
    );
  }
  return new Map(
    names.map((name) => {
      const route = given[name] ?? (name === 'telegram' ? telegramRoute() : undefined);
      if (typeof route?.read === 'function') return [name, route];
      throw new ConfigError(
        `meshChat(): no route for adapter '${name}'. Pass { routes: { ${name}: { read, headers } } }, which says what chat a ` +
          'request is of, and by what id the platform knows it.',
      );
    }),
  );
}

/** Each would take the other's webhooks for its own, and run them twice. */
function claim(chat: ChatLike, state: MeshState): void {
  if (bound.has(chat))
    throw new ConfigError('meshChat(): this Chat is bound already. Call it once, and keep what it returns.');
  if (!state.bind()) {
    throw new ConfigError(
      'meshChat(): another Chat is bound with this MeshState. Give each a MeshState and a coordinator.',
    );
  }
  bound.add(chat);
}

function hasMailroom(coordinator: Coordinator): boolean {
  return typeof (coordinator as Partial<Mailroom>).waiting === 'function';
}

function isPolling(adapter: unknown): boolean {
  return (adapter as { runtimeMode?: unknown } | undefined)?.runtimeMode === 'polling';
}

function pollingWarning(name: string): string {
  return (
    `botmesh: WARNING: adapter ${name} polls. Each replica does, what it gets is in no order and in no turn, and dies with ` +
    `its process. Give the adapter mode: 'webhook'.`
  );
}
