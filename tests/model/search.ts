/** A finite system: where it begins, what it can do next, and what may never be. */
export interface System<State> {
  readonly start: State;
  /** Everything that may happen next. The states given are new ones; `state` is not changed. */
  next(state: State): Iterable<readonly [label: string, state: State]>;
  /** The same text for states from which the same things can follow. */
  key(state: State): string;
  /** Why a state may never be, if so. */
  wrong(state: State): string | undefined;
}

export interface Verdict {
  readonly states: number;
  readonly edges: number;
  readonly depth: number;
  /** The shortest way to a state that may never be. */
  readonly found?: { readonly wrong: string; readonly trace: readonly string[] };
}

/**
 * Visits every state that can be reached, nearest first. Throws when there are more than `limit`: a search that stopped
 * early has shown nothing about the rest.
 */
export function search<State>(system: System<State>, limit: number): Verdict {
  const seen = new Set<string>();
  const from: number[] = [];
  const labels: string[] = [];
  let edges = 0;
  let depth = 0;

  const trace = (state: number): string[] => {
    const steps: string[] = [];
    for (let at = state; at > 0; at = from[at] ?? 0) steps.push(labels[at] ?? '');
    return steps.reverse();
  };
  const add = (state: State, parent: number, label: string): boolean => {
    const key = system.key(state);
    if (seen.has(key)) return false;
    if (seen.size >= limit) throw new Error(`There are more than ${limit} states.`);
    seen.add(key);
    from.push(parent);
    labels.push(label);
    return true;
  };

  add(system.start, 0, 'start');
  let layer: { state: State; at: number }[] = [{ state: system.start, at: 0 }];
  for (; layer.length > 0; depth += 1) {
    const following: typeof layer = [];
    for (const { state, at } of layer) {
      for (const [label, next] of system.next(state)) {
        edges += 1;
        if (!add(next, at, label)) continue;
        const number = from.length - 1;
        const wrong = system.wrong(next);
        if (wrong !== undefined) {
          return { states: seen.size, edges, depth: depth + 1, found: { wrong, trace: trace(number) } };
        }
        following.push({ state: next, at: number });
      }
    }
    layer = following;
  }
  return { states: seen.size, edges, depth };
}
