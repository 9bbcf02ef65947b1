import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { ConfigError, InvalidStateError } from '../errors.js';
import { MemoryStateStore } from '../state/MemoryStateStore.js';
import { StateRules } from '../state/StateRules.js';
import type { StateStore } from '../state/state-store.js';
import type { BotOptions, BringsState, StateOptions } from './options.js';

const meshStates = new WeakMap<object, StateStore>();

/** The store that a Bot was told to keep its state in. */
export function storeIn({ state }: BotOptions): StateStore | undefined {
  return state === undefined || isStore(state) ? state : state.store;
}

/** What the states of a Bot must be, by their scopes. */
export interface Scopes {
  readonly chat: StateRules;
  /** Of the key of a hold. */
  readonly rulesOf: (key: string) => StateRules;
}

/** @throws ConfigError naming the option and what cannot work */
export function scopesOf({ state }: BotOptions): Scopes {
  const { store: _store, user = {}, global = {}, ...chat } = state === undefined || isStore(state) ? {} : state;
  const users = new StateRules(user, 'state of a user', 'Bot: state.user');
  const ofGlobal = new StateRules(global, "state of 'global'", 'Bot: state.global');
  const others = new StateRules({}, 'state of a key', 'Bot: state');
  return {
    chat: new StateRules(chat, 'ctx.state', 'Bot: state'),
    rulesOf: (key) => (key.startsWith('user:') ? users : key === 'global' ? ofGlobal : others),
  };
}

/**
 * Whether every schema takes what a new chat, user or bot begins with.
 *
 * @throws ConfigError when one does not
 */
export async function checkFresh({ chat, rulesOf }: Scopes): Promise<void> {
  try {
    for (const rules of [chat, rulesOf('user:'), rulesOf('global')]) await rules.begin();
  } catch (cause) {
    if (!(cause instanceof InvalidStateError)) throw cause;
    throw new ConfigError(
      `Bot: state.schema refuses {}, which new state begins with, at ${cause.path}. Give that a default, or make it optional.`,
      'config',
      { cause },
    );
  }
}

// biome-ignore lint/suspicious/noExplicitAny: whatever the states' types
export function isStore(state: StateStore | StateOptions<any, any, any>): state is StateStore {
  const { load, save } = (state ?? {}) as Partial<StateStore>;
  return typeof load === 'function' && typeof save === 'function';
}

/** Where a Bot's state is kept: where it was told, where its coordinator says, or in this process. */
export function stateOf(options: BotOptions): StateStore {
  const { coordinator } = options;
  const told = storeIn(options);
  if (told !== undefined) return told;
  if (coordinator instanceof MemoryCoordinator) return stateOfMesh(coordinator.mesh);
  return (coordinator as Partial<BringsState> | undefined)?.stateStore ?? new MemoryStateStore();
}

/** Replicas of one mesh in memory share its state, as replicas of one server do. */
function stateOfMesh(mesh: object): StateStore {
  const found = meshStates.get(mesh);
  if (found !== undefined) return found;
  const made = new MemoryStateStore();
  meshStates.set(mesh, made);
  return made;
}
