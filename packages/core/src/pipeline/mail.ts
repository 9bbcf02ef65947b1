import type { Coordinator, Mailroom } from '../coordination/types.js';

const METHODS: { [Name in Exclude<keyof Mailroom, keyof Coordinator>]: true } = {
  accept: true,
  onAdopted: true,
  isGranted: true,
  finish: true,
  passWaiting: true,
  waiting: true,
  tell: true,
  onTold: true,
  parked: true,
  replay: true,
  drop: true,
  pace: true,
};

/** Looks at the methods, not at the class: one from another copy of this package will do. */
export function isMailroom(coordinator: Coordinator): coordinator is Mailroom {
  const found = coordinator as unknown as Record<string, unknown>;
  return Object.keys(METHODS).every((name) => typeof found[name] === 'function');
}
