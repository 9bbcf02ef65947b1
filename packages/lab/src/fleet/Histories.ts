import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { HistoryEvent } from '@botmesh/core/testing';

interface Tail {
  readonly file: number;
  at: number;
  /** The bytes of a line that is not ended yet: of a process that was killed, it never will be. */
  half: Buffer;
}

const CHUNK = 1 << 20;

/** What the replicas of one folder have written down, read as it grows. */
export class Histories implements Disposable {
  /** In the order in which they were read: that of one replica is kept. */
  readonly events: HistoryEvent[] = [];
  readonly #folder: string;
  readonly #tails = new Map<string, Tail>();
  readonly #buffer = Buffer.alloc(CHUNK);

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Reads what is new. */
  read(): readonly HistoryEvent[] {
    for (const name of readdirSync(this.#folder)) {
      let tail = this.#tails.get(name);
      if (tail === undefined) {
        tail = { file: openSync(join(this.#folder, name), 'r'), at: 0, half: Buffer.alloc(0) };
        this.#tails.set(name, tail);
      }
      this.#readOn(tail);
    }
    return this.events;
  }

  [Symbol.dispose](): void {
    for (const { file } of this.#tails.values()) closeSync(file);
    this.#tails.clear();
  }

  #readOn(tail: Tail): void {
    for (;;) {
      const count = readSync(tail.file, this.#buffer, 0, CHUNK, tail.at);
      if (count === 0) return;
      tail.at += count;
      const bytes = Buffer.concat([tail.half, this.#buffer.subarray(0, count)]);
      const end = bytes.lastIndexOf('\n') + 1;
      tail.half = bytes.subarray(end);
      for (const line of bytes.toString('utf8', 0, end).split('\n')) {
        if (line !== '') this.events.push(JSON.parse(line) as HistoryEvent);
      }
    }
  }
}
