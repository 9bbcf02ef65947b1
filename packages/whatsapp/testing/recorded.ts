import { readdirSync, readFileSync } from 'node:fs';

type Json = Readonly<Record<string, unknown>>;

export interface Recorded {
  /** The file, and its member. */
  readonly name: string;
  readonly body: Json;
}

const folder = new URL('./fixtures/', import.meta.url);

/** Every body that was recorded. */
export function recorded(): Recorded[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .flatMap((file) => {
      const members = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Record<string, unknown>;
      return Object.entries(members).flatMap(([member, body]) =>
        typeof body === 'object' ? [{ name: `${file.replace('.json', '')} ${member}`, body: body as Json }] : [],
      );
    });
}
