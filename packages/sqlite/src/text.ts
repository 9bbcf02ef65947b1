/** Marks a text that could not be stored as it is. */
const MARK = '\u0001';
const LONE_SURROGATE = /\p{Surrogate}/u;
const NUL = '\u0000';

/**
 * Text for a column. SQLite keeps UTF-8, which has no lone surrogates, and the library of Node 22 reads a text only up to its
 * first NUL: such texts, and those with the mark, are escaped.
 */
export function toColumn(text: string): string {
  const isOdd = text.startsWith(MARK) || text.includes(NUL) || LONE_SURROGATE.test(text);
  return isOdd ? MARK + JSON.stringify(text) : text;
}

export function fromColumn(column: string): string {
  return column.startsWith(MARK) ? (JSON.parse(column.slice(1)) as string) : column;
}

export function textOrNull(text: string | null): string | null {
  return text === null ? null : toColumn(text);
}

export function fromTextOrNull(column: unknown): string | null {
  return typeof column === 'string' ? fromColumn(column) : null;
}
