import { readdirSync, readFileSync } from 'node:fs';

export interface Recorded {
  /** The file, and the member. */
  readonly name: string;
  readonly update: Readonly<Record<string, unknown>>;
}

const folder = new URL('./fixtures/', import.meta.url);

/** Every file that was recorded, and what it holds. */
export function recordings(): { readonly file: string; readonly content: Readonly<Record<string, unknown>> }[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .map((file) => ({
      file,
      content: JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Record<string, unknown>,
    }));
}

/** Every update in a recording, however deep. */
export function updatesIn(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return [];
  if ('update_id' in value) return [value as Record<string, unknown>];
  return Object.values(value).flatMap(updatesIn);
}
