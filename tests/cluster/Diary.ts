import { appendFileSync, closeSync, openSync, readSync } from 'node:fs';

/** A line of the diary: what a replica did, or what was done to it. */
export interface Noted {
  readonly replicaId: string;
  readonly event: string;
  readonly chat?: string;
  readonly id?: string;
  readonly text?: string;
  readonly how?: string;
  readonly code?: string;
  readonly reason?: string;
  readonly attempt?: number;
  readonly last?: string;
  readonly key?: string;
  readonly seq?: number;
  readonly fence?: number;
  /** By the wall clock of the host, which its processes share. */
  readonly atMs?: number;
}

const CHUNK = 1 << 20;

/** What all processes of a mesh have noted, in the order in which they did. Read as it grows. */
export class Diary {
  readonly path: string;
  readonly #lines: Noted[] = [];
  readonly #file: number;
  readonly #chunk = Buffer.alloc(CHUNK);
  #rest = Buffer.alloc(0);

  constructor(path: string) {
    this.path = path;
    this.#file = openSync(path, 'a+');
  }

  note(replicaId: string, event: string): void {
    appendFileSync(this.path, `${JSON.stringify({ replicaId, event })}\n`);
  }

  /** All lines up to now. */
  read(): readonly Noted[] {
    for (;;) {
      const count = readSync(this.#file, this.#chunk, 0, CHUNK, null);
      if (count === 0) return this.#lines;
      this.#take(this.#chunk.subarray(0, count));
    }
  }

  close(): void {
    closeSync(this.#file);
  }

  #take(bytes: Buffer): void {
    const all = Buffer.concat([this.#rest, bytes]);
    const end = all.lastIndexOf(10) + 1;
    this.#rest = all.subarray(end);
    const lines = all.subarray(0, end).toString().split('\n').slice(0, -1);
    this.#lines.push(...lines.map((line) => JSON.parse(line) as Noted));
  }
}
