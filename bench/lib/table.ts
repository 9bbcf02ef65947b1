import type { Spread } from './stats.js';

/** A Markdown table. */
export function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  return [row(head), row(head.map(() => '---')), ...lines.map(row)].join('\n');
}

/** One line of it. */
export function row(cells: readonly string[]): string {
  return `| ${cells.join(' | ')} |`;
}

/** `median (min..max)`, in as many digits as mean something. */
export function shown({ median, min, max }: Spread): string {
  return min === max ? rounded(median) : `${rounded(median)} (${rounded(min)}..${rounded(max)})`;
}

function rounded(value: number): string {
  const size = Math.abs(value);
  if (size >= 10_000) return `${Math.round(value / 1000).toLocaleString('en')}k`;
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}
