import type { SharedDocument, Version } from './shared-document.js';

/** A document in this process, for tests: its place can lose what was written, and others can come in between. */
export class MemoryDocument implements SharedDocument {
  readonly #listeners = new Map<string, (hint: string) => void>();
  #number = 0;
  #text: string | null = null;
  #homes = 0;
  /** Asked before each replacement: whether somebody else is faster. */
  isOvertaken: () => boolean = () => false;

  async read(): Promise<Version> {
    return { number: this.#number, text: this.#text, home: `memory ${this.#homes}` };
  }

  async replace(number: number, text: string): Promise<boolean> {
    if (number !== this.#number) return false;
    this.#number += 1;
    // Who is faster changes nothing here but the number, which is what the slower one trips over.
    if (this.isOvertaken()) return false;
    this.#text = text;
    return true;
  }

  async send(name: string, hint: string): Promise<void> {
    this.#listeners.get(name)?.(hint);
  }

  async listen(name: string, listener: (hint: string) => void): Promise<() => Promise<void>> {
    this.#listeners.set(name, listener);
    return async () => void this.#listeners.delete(name);
  }

  async close(): Promise<void> {}

  restart(): void {
    this.#homes += 1;
  }

  wipe(): void {
    this.#text = null;
    this.restart();
  }

  /** Keeps a copy; the returned function puts it back. */
  snapshot(): () => void {
    const copy = this.#text;
    return () => {
      this.#text = copy;
      this.restart();
    };
  }
}
