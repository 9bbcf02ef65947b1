import process from 'node:process';
import { createInterface, type Interface } from 'node:readline';

/** Standard input, line by line, and the lines that come out. On a terminal, what is being typed is kept below them. */
export class Terminal {
  readonly isTyped = process.stdin.isTTY === true;
  /** Undefined until it is read, and when it has ended. */
  #input: Interface | undefined;
  #isGone = false;

  constructor() {
    if (!this.isTyped) return;
    for (const stream of [process.stdin, process.stdout, process.stderr]) {
      stream.on('error', () => {
        this.#isGone = true;
      });
    }
  }

  /** Whether it was a terminal, and was closed. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** The lines of the input. `interrupted` is called on Ctrl-C. */
  async *lines(interrupted: () => void): AsyncGenerator<string> {
    const input = createInterface({
      input: process.stdin,
      crlfDelay: Number.POSITIVE_INFINITY,
      ...(this.isTyped ? { output: process.stdout, prompt: '> ' } : {}),
    });
    this.#input = input;
    input.on('SIGINT', interrupted);
    input.on('close', () => {
      this.#input = undefined;
    });
    this.#prompt();
    try {
      for await (const line of input) {
        yield line;
        this.#prompt();
      }
    } catch (error) {
      // A terminal that is closed ends the input.
      if (!this.#isGone) throw error;
    }
  }

  /** Resolves when the answer is out. */
  answer(line: string): Promise<void> {
    return this.#write(process.stdout, line);
  }

  /** For all that is no answer. */
  tell(notice: string): void {
    void this.#write(process.stderr, this.isTyped ? `  [${notice}]` : notice);
  }

  close(): void {
    const input = this.#input;
    // A terminal that was closed refuses to be put back, by an event that may come here again.
    this.#input = undefined;
    input?.close();
  }

  #write(stream: NodeJS.WriteStream, line: string): Promise<void> {
    return new Promise((resolve) => {
      stream.write(this.isTyped ? `\r\x1b[K${line}\n` : `${line}\n`, () => resolve());
      this.#prompt(true);
    });
  }

  #prompt(keepsCursor = false): void {
    if (this.isTyped) this.#input?.prompt(keepsCursor);
  }
}
