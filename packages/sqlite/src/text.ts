/** Marks a text that could not be stored as it is. */
const MARK = '\u0001';
const LONE_SURROGATE = /\p{Surrogate}/u;

/** Text for a column. SQLite keeps UTF-8, which has no lone surrogates: such texts, and those with the mark, are escaped. */
export function toColumn(text: string): string {
  return LONE_SURROGATE.test(text) || text.startsWith(MARK) ? MARK + JSON.stringify(text) : text;
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
