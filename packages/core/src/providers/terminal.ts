import process from 'node:process';
import { checkOptionNames, DeliveryError } from '../errors.js';
import { lines } from './lines.js';
import type { Intake, Provider } from './provider.js';

export interface TerminalOptions {
  /** What is read, line by line. Default: standard input. */
  input?: AsyncIterable<Uint8Array | string>;
  /** Where replies go. Default: standard output. */
  output?: { write(text: string, done: (error?: Error | null) => void): unknown };
  /** The chat that every line belongs to. Default `you`. */
  chat?: string;
}

/**
 * A chat in the terminal: each line that is typed or piped in is a message, replies are printed. When the input ends, the
 * Bot answers what it has, and stops. Lines have no ids, so nothing is taken for a redelivery.
 */
export function terminal(options: TerminalOptions = {}): Provider {
  checkOptionNames('terminal()', options, { input: true, output: true, chat: true });
  const { input = process.stdin, output = process.stdout, chat = 'you' } = options;
  let intake: Intake | undefined;
  let end: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });

  async function read(): Promise<void> {
    try {
      for await (const text of lines(input)) {
        if (intake === undefined) return;
        // A line that cannot be taken in is told of, and not the end of the others.
        await intake({ chat, text }).catch((error: Error) => console.error(`Not taken in: ${error.message}`));
      }
    } catch (error) {
      console.error(`The input broke off: ${(error as Error).message}`);
    }
    end();
  }

  let isReading = false;
  return {
    name: 'terminal',
    ended,
    start(take) {
      intake = take;
      if (!isReading) void read();
      isReading = true;
    },
    stop() {
      intake = undefined;
      // A terminal that is being read keeps the process alive.
      if (input === process.stdin) process.stdin.pause();
      if (input === process.stdin && 'unref' in input) input.unref();
    },
    send(_chat, { text }) {
      return new Promise((resolve, reject) => {
        output.write(`${text}\n`, (error) => {
          if (error) reject(new DeliveryError('terminal: the output is closed', { cause: error }));
          else resolve();
        });
      });
    },
  };
}
