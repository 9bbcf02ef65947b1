import type { ChatTurn, Coordinator } from '../coordination/types.js';
import { BadInputError, LeaseLostError } from '../errors.js';
import { Hand, inHand } from './hand.js';

/** What must be serial about an update: one key, several, or nothing. */
export type Keys = string | readonly string[] | undefined;

/** The keys in the one order in which everybody takes them. */
export function orderOf(keys: Keys, where: string): readonly string[] {
  if (keys === undefined || keys === null) return [];
  const list: readonly unknown[] = Array.isArray(keys) ? keys : [keys];
  const wrong = list.find((key) => typeof key !== 'string' || key === '');
  if (wrong !== undefined) {
    const found = wrong === '' ? 'an empty one' : typeof wrong;
    throw new BadInputError(`${where}: expected keys that are non-empty strings, found ${found}. Use String(id).`);
  }
  return [...new Set(list as string[])].sort(byCodeUnits);
}

/**
 * Runs `act` while `keys` are held, in the whole mesh by nobody else. The first place is taken before anything is awaited.
 * Keys are taken one after the other in the order of their names, as everybody does, so nobody waits in a circle. Within
 * an update that holds some already, the others are taken besides.
 *
 * @throws BadInputError when one of them comes before a key that is held
 * @throws CoordinationUnavailableError when the backend does not answer
 */
export function holding<T>(coordinator: Coordinator, keys: readonly string[], act: () => T): Promise<Awaited<T>> {
  const outer = inHand();
  const isWithin = outer?.coordinator === coordinator;
  const hand = isWithin ? outer : new Hand(coordinator);
  const missing = keys.filter((key) => hand.turnOf(key) === undefined);
  const early = missing.find((key) => hand.keys.some((held) => key < held));
  if (early !== undefined) {
    return Promise.reject(
      new BadInputError(
        "sequentialize: a key comes before one that this update holds already, so two updates could wait for each other. Give the binding the same function as its option 'keys'.",
      ),
    );
  }
  return isWithin ? takeRest(hand, missing, act) : hand.run(() => takeRest(hand, missing, act));
}

/** Takes the keys one after the other, runs `act`, and lets them go again. */
export async function takeRest<T>(hand: Hand, keys: readonly string[], act: () => T): Promise<Awaited<T>> {
  const turns: ChatTurn[] = [];
  const leave: (() => void)[] = [];
  try {
    for (const key of keys) {
      const turn = await takeOne(hand, key);
      turns.push(turn);
      leave.push(hand.add(turn, turn.signal));
    }
    const result = await act();
    // What was done under a key that was lost meanwhile is not known to be alone.
    for (const turn of turns) turn.assertHeld();
    return result;
  } finally {
    for (const each of leave) each();
    await Promise.all(turns.map((turn) => turn.release()));
  }
}

async function takeOne({ coordinator, signal }: Hand, key: string): Promise<ChatTurn> {
  for (;;) {
    const ticket = await coordinator.reserve(key);
    try {
      return await coordinator.acquireTurn(ticket, { signal });
    } catch (error) {
      // The place was lost, and the update is in nobody else's hands: it takes a new one.
      if (!(error instanceof LeaseLostError && error.reason === 'superseded') || signal.aborted) throw error;
    }
  }
}

function byCodeUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
