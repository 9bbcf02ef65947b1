import type { Op } from '@botmesh/core/spi';
import { textList } from './requests.js';
import { fromWire, isLong, shortOf, toWire } from './text.js';

/** Calls a function of the schema for one shard of the mesh. */
type Call = (name: string, ...args: string[]) => Promise<string | null>;

/** Keys that are too long for an index. The tables have them apart, beside what stands for them everywhere else. */
export class LongKeys {
  readonly #call: Call;

  constructor(call: Call) {
    this.#call = call;
  }

  /** Before a batch that names them: whoever is told of one of them by others has to find it. */
  async note(ops: readonly Op[]): Promise<void> {
    const found = new Map<string, string>();
    for (const { key } of ops) {
      const short = shortOf(key);
      if (isLong(short)) found.set(short, key);
    }
    if (found.size === 0) return;
    await this.#call('note_long', textList([...found.keys()]), textList([...found.values()].map(toWire)));
  }

  /** How to read the keys of an answer with these in it. */
  async reader(shorts: readonly string[]): Promise<(short: string) => string> {
    const wanted = [...new Set(shorts)].filter(isLong);
    const found = new Map<string, string>();
    if (wanted.length > 0) {
      const text = await this.#call('see_long', textList(wanted));
      const keys = JSON.parse(text ?? '{}') as Record<string, string>;
      for (const [short, wire] of Object.entries(keys)) found.set(short, fromWire(wire));
    }
    return (short) => {
      if (!isLong(short)) return fromWire(short);
      const key = found.get(short);
      if (key === undefined) throw new Error('PostgreSQL: a key that is too long for an index was not found.');
      return key;
    };
  }
}
