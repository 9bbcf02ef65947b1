import { Checker, type Message, type Violations } from '../lib/Checker.js';
import type { Contender, Line } from './contenders.js';

/** How messages come: all at once, or a fixed number outstanding at any time. */
export interface Load {
  readonly name: string;
  readonly chats: number;
  readonly outstanding: number;
}

export const loads: readonly Load[] = [
  { name: 'W1: one hot chat', chats: 1, outstanding: 64 },
  { name: 'W2: 10,000 chats', chats: 10_000, outstanding: 64 },
  { name: 'burst: 200 × 50 chats', chats: 50, outstanding: 10_000 },
];

/** What one message costs in a run, in CPU of the whole process, garbage collection and all. */
export interface Run {
  readonly cpuUsPerMessage: number;
}

/** Hands out a load's messages, chat by chat in a fixed mixed order, each with its number. */
export class Source {
  readonly #names: readonly string[];
  readonly #numbers: Uint32Array;
  readonly #lanes: number;
  #count = 0;

  constructor(chats: number, lanes: number) {
    this.#names = Array.from({ length: chats }, (_, at) => `chat-${at}`);
    this.#numbers = new Uint32Array(chats * lanes);
    this.#lanes = lanes;
  }

  next(): Message {
    const count = this.#count++;
    const lane = count % this.#lanes;
    const chatIndex = (Math.floor(count / this.#lanes) * STRIDE) % this.#names.length;
    const number = ++this.#numbers[chatIndex * this.#lanes + lane]!;
    return { chat: this.#names[chatIndex]!, chatIndex, lane, number, calledMs: 0 };
  }
}

/** A prime: it meets every chat before it meets one again. */
const STRIDE = 7919;

/**
 * One contender under one load, open from the first round to the last as it is in a bot: what is made anew each time
 * would run as cold code each time.
 */
export class Course {
  readonly #outstanding: number;
  readonly #source: Source;
  readonly #checker: Checker;
  readonly #line: Line;
  #submitted = 0;

  private constructor(load: Load, source: Source, checker: Checker, line: Line) {
    this.#outstanding = load.outstanding;
    this.#source = source;
    this.#checker = checker;
    this.#line = line;
  }

  static async open(contender: Contender, load: Load): Promise<Course> {
    const checker = new Checker(load.chats, contender.lanes);
    const line = await contender.open(async (message, fence) => {
      checker.begin(message, fence);
      await Promise.resolve();
      checker.end(message);
    });
    return new Course(load, new Source(load.chats, contender.lanes), checker, line);
  }

  /** Handles so many more messages. */
  async run(messages: number): Promise<Run> {
    let left = messages;
    const caller = async (): Promise<void> => {
      while (left > 0) {
        left -= 1;
        await this.#line.submit(this.#source.next());
      }
    };
    this.#submitted += messages;

    const cpu = process.cpuUsage();
    await Promise.all(Array.from({ length: Math.min(this.#outstanding, messages) }, caller));
    const { user, system } = process.cpuUsage(cpu);
    return { cpuUsPerMessage: (user + system) / messages };
  }

  /** What went wrong, over all rounds. */
  async close(): Promise<Violations> {
    await this.#line.close();
    return this.#checker.violations(this.#submitted);
  }
}
