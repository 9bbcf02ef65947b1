const DEEPEST = 500;

/**
 * What in `value` would not come back from JSON as it is, by its path, or undefined. A member that is undefined counts as
 * one that is not there, which is how it comes back.
 */
export function notPlain(value: unknown, path: string, depth = 0): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      return Number.isFinite(value) ? undefined : `${path} is ${value}`;
    case 'object':
      if (value === null) return undefined;
      if (depth === DEEPEST) return `${path.slice(0, 60)}… is more than ${DEEPEST} deep, or goes in a circle`;
      return Array.isArray(value) ? inArray(value, path, depth + 1) : inObject(value, path, depth + 1);
    default:
      return `${path} is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`;
  }
}

/** Whether it is an object as a literal makes it, of whatever realm. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** What was found where a plain object was expected: its kind, not its contents. */
export function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value !== 'object') return typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`;
  if (isPlainObject(value)) return 'an object';
  return `a ${(value.constructor as { name?: string } | undefined)?.name ?? 'class instance'}`;
}

function inArray(list: readonly unknown[], path: string, depth: number): string | undefined {
  // By index: a hole counts as undefined, and forEach would pass it over.
  for (let at = 0; at < list.length; at++) {
    const problem = notPlain(list[at], `${path}[${at}]`, depth);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function inObject(value: object, path: string, depth: number): string | undefined {
  if (!isPlainObject(value)) return `${path} is ${kindOf(value)}`;
  for (const name of Object.keys(value)) {
    const member = value[name];
    // Looked at here, so that a path is made for what may hold something, and not for every string.
    if (member === undefined || typeof member === 'string' || typeof member === 'boolean') continue;
    const problem = notPlain(member, `${path}.${name}`, depth);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
