import { setImmediate as nextTask } from 'node:timers/promises';
import { Checker, type Message, type Violations } from '../lib/Checker.js';
import { quantile } from '../lib/stats.js';
import { type Contender, contenders, type Line } from './contenders.js';
import type { Effort } from './effort.js';
import { Source } from './loads.js';

const CHATS = 10_000;
export const MESSAGES_PER_SECOND = 20_000;

export interface Latency {
  /** From the call to the start of the handler. */
  readonly p50Us: number;
  readonly p99Us: number;
}

export interface Latencies extends Violations {
  readonly contender: string;
  readonly runs: readonly Latency[];
}

/** How long messages wait that come at a fixed rate, whether or not earlier ones are done. */
export async function latencies({ rounds, warmUps, latencySeconds }: Effort): Promise<Latencies[]> {
  const messages = Math.round(MESSAGES_PER_SECOND * latencySeconds);
  const streams = await Promise.all(contenders.map((contender) => Stream.open(contender)));
  const runs: Latency[][] = contenders.map(() => []);
  for (let round = -Math.min(warmUps, 1); round < rounds; round++) {
    for (const [at, stream] of streams.entries()) {
      const latency = await stream.run(messages);
      if (round >= 0) runs[at]!.push(latency);
    }
  }
  const violations = await Promise.all(streams.map((stream) => stream.close()));
  return contenders.map(({ name }, at) => ({ contender: name, runs: runs[at]!, ...violations[at]! }));
}

class Stream {
  readonly #source: Source;
  readonly #checker: Checker;
  #line: Line | undefined;
  #waitedUs = new Float64Array(0);
  #begun = 0;
  #submitted = 0;

  private constructor(lanes: number) {
    this.#source = new Source(CHATS, lanes);
    this.#checker = new Checker(CHATS, lanes);
  }

  static async open(contender: Contender): Promise<Stream> {
    const stream = new Stream(contender.lanes);
    stream.#line = await contender.open((message, fence) => stream.#handle(message, fence));
    return stream;
  }

  async #handle(message: Message, fence?: number): Promise<void> {
    this.#waitedUs[this.#begun++] = (performance.now() - message.calledMs) * 1000;
    this.#checker.begin(message, fence);
    await Promise.resolve();
    this.#checker.end(message);
  }

  async run(messages: number): Promise<Latency> {
    this.#waitedUs = new Float64Array(messages);
    this.#begun = 0;
    this.#submitted += messages;
    const handled: Promise<void>[] = [];
    const startedMs = performance.now();
    while (handled.length < messages) {
      const due = Math.min(messages, ((performance.now() - startedMs) / 1000) * MESSAGES_PER_SECOND);
      while (handled.length < due) {
        const message = this.#source.next();
        message.calledMs = performance.now();
        handled.push(this.#line!.submit(message));
      }
      await nextTask();
    }
    await Promise.all(handled);
    const sorted = this.#waitedUs.sort();
    return { p50Us: quantile(sorted, 0.5), p99Us: quantile(sorted, 0.99) };
  }

  async close(): Promise<Violations> {
    await this.#line!.close();
    return this.#checker.violations(this.#submitted);
  }
}
