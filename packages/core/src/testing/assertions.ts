/** Throws unless both are the same JSON data, whatever the order of their fields. */
export function assertEqual(found: unknown, wanted: unknown): void {
  const [a, b] = [canonical(found), canonical(wanted)];
  if (a !== b) throw new Error(`Expected ${shorten(b)}, found ${shorten(a)}.`);
}

/** Throws unless `promise` rejects with an error of the class. Resolves to the error. */
export async function assertRejects<E extends Error>(
  promise: Promise<unknown>,
  // biome-ignore lint/suspicious/noExplicitAny: whatever it is made with
  wanted: new (...args: any[]) => E,
): Promise<E> {
  let found: unknown;
  try {
    found = await promise;
  } catch (error) {
    if (error instanceof wanted) return error;
    throw new Error(`Expected a ${wanted.name}, found ${String(error)}.`, { cause: error });
  }
  throw new Error(`Expected a ${wanted.name}, found ${shorten(canonical(found))}.`);
}

function canonical(value: unknown): string {
  const sorted = (_key: string, field: unknown): unknown => {
    if (typeof field !== 'object' || field === null || Array.isArray(field)) return field;
    return Object.fromEntries(Object.entries(field).sort(([a], [b]) => (a < b ? -1 : 1)));
  };
  return JSON.stringify(value, sorted) ?? 'undefined';
}

function shorten(text: string): string {
  return text.length > 300 ? `${text.slice(0, 300)}… (${text.length} characters)` : text;
}
