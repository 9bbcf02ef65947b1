/** The fields that hold stamps: their numbers differ from store to store, their order may not. */
const STAMPS = new Set(['epoch', 'seq', 'fence', 'at']);

/**
 * Which stamp of one store stands for which of another. Each new pair has to fit into the order of those before: stamps
 * given by a later step are greater, and those of one key rise alike.
 */
export class StampPairs {
  readonly #eras = new Map<number, number>();
  readonly #toSubject = new Map<number, number>();
  readonly #toReference = new Map<number, number>();
  #greatest = { reference: 0, subject: 0 };
  #before = { reference: 0, subject: 0 };

  /** The greatest stamp the reference gave. */
  get greatest(): number {
    return this.#greatest.reference;
  }

  /** Stamps met from here on were given later, unless they are old ones heard of late. */
  nextStep(): void {
    this.#before = this.#greatest;
  }

  /** The subject's stamp for one of the reference's. Numbers that nobody gave stand for themselves. */
  translate(reference: number): number {
    const known = this.#toSubject.get(reference);
    if (known !== undefined) return known;
    // A number made up beyond the greatest stays beyond it.
    const beyond = reference - this.#greatest.reference;
    return beyond >= 0 && this.#greatest.reference > 0 ? this.#greatest.subject + beyond : reference;
  }

  /** The subject's number for an era of the reference's. */
  translateEra(reference: number): number {
    return this.#eras.get(reference) ?? reference;
  }

  /** Both stores were told of a stamp beyond all of theirs. */
  raise(by: number): void {
    this.#note(this.#greatest.reference + by, this.#greatest.subject + by);
  }

  /** Where `subject` differs from `reference` beyond the numbers of the stamps; undefined where it does not. */
  difference(reference: unknown, subject: unknown, path = 'answer'): string | undefined {
    if (typeof reference === 'number' && typeof subject === 'number' && STAMPS.has(path.split('.').at(-1) ?? '')) {
      return this.#pair(reference, subject, path);
    }
    if (typeof reference === 'number' && typeof subject === 'number' && path.endsWith('.era')) {
      return this.#pairEras(reference, subject, path);
    }
    if (typeof reference !== 'object' || reference === null || typeof subject !== 'object' || subject === null) {
      return Object.is(reference, subject) ? undefined : `${path} is ${show(subject)}, expected ${show(reference)}`;
    }
    if (Array.isArray(reference) !== Array.isArray(subject)) return `${path} is of another shape`;
    const [left, right] = [reference as Record<string, unknown>, subject as Record<string, unknown>];
    for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
      const found = this.difference(left[name], right[name], `${path}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Eras have no order: each of one store stands for one of the other. */
  #pairEras(reference: number, subject: number, path: string): string | undefined {
    const known = this.#eras.get(reference);
    if (known === subject) return undefined;
    const isTaken = [...this.#eras.values()].includes(subject);
    if (known !== undefined || isTaken || (reference === 0) !== (subject === 0)) {
      return `${path} is ${subject}, expected ${known ?? 'one not met before'}`;
    }
    this.#eras.set(reference, subject);
    return undefined;
  }

  #pair(reference: number, subject: number, path: string): string | undefined {
    if (reference === 0 || subject === 0) {
      return reference === subject ? undefined : `${path} is ${subject}, expected ${reference}`;
    }
    const known = this.#toSubject.get(reference);
    const back = this.#toReference.get(subject);
    if (known === undefined && back === undefined) return this.#add(reference, subject, path);
    return known === subject
      ? undefined
      : `${path} is ${subject}, expected ${known ?? `a new stamp, for ${reference}`}`;
  }

  #add(reference: number, subject: number, path: string): string | undefined {
    const isNew = reference > this.#before.reference;
    if (isNew !== subject > this.#before.subject) {
      return `${path} is ${subject}, which is ${isNew ? 'not ' : ''}greater than every earlier stamp`;
    }
    this.#toSubject.set(reference, subject);
    this.#toReference.set(subject, reference);
    this.#note(reference, subject);
    return undefined;
  }

  #note(reference: number, subject: number): void {
    this.#greatest = {
      reference: Math.max(this.#greatest.reference, reference),
      subject: Math.max(this.#greatest.subject, subject),
    };
  }
}

function show(value: unknown): string {
  return JSON.stringify(value) ?? String(value);
}
