/** What a suite needs of an assertion library, so that it runs under any test runner. */

export class ConformanceError extends Error {
  override readonly name = 'ConformanceError';
}

export function claim(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new ConformanceError(otherwise);
}

/** Equal as JSON, undefined members aside. */
export function claimEqual(found: unknown, expected: unknown, what: string): void {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  claim(a === b, `${what}: found ${a}, expected ${b}`);
}

export function claimRising(numbers: readonly number[], what: string): void {
  numbers.forEach((number, at) => {
    claim(at === 0 || number > (numbers[at - 1] ?? 0), `${what} do not rise at ${at}: ${numbers.join(', ')}`);
  });
}

/** What an error says to a program: `reason` of a lost lease, else `code`, else its text. */
export function nameOf(error: unknown): string {
  const { reason, code, message } = (error ?? {}) as { reason?: unknown; code?: unknown; message?: unknown };
  return String(reason ?? code ?? message ?? error);
}

/** Rejects with one of these reasons or codes; answers which. */
export async function claimRejects(promise: Promise<unknown>, names: readonly string[], what: string): Promise<string> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    const name = nameOf(error);
    claim(names.includes(name), `${what} was rejected with ${name}, expected ${names.join(' or ')}`);
    return name;
  }
  throw new ConformanceError(`${what} was not rejected, expected ${names.join(' or ')}; it gave ${describe(value)}`);
}

function describe(value: unknown): string {
  return typeof value === 'object' && value !== null ? value.constructor.name : String(value);
}
