import process from 'node:process';
import type { Numbered, Order, Report } from './protocol.js';

/** A replica's line to the process that started it. */
export class Parent {
  readonly #unconfirmed = new Map<number, () => void>();
  #reports = 0;

  constructor(obey: (order: Exclude<Order, { kind: 'taken' }>) => void) {
    process.on('message', (order: Order) => {
      if (order.kind === 'taken') this.#confirm(order.number);
      else obey(order);
    });
  }

  /**
   * Resolves when the parent has taken the report in. Whoever waits for that before releasing a turn can be killed at any
   * moment: what the parent does not know yet is done again.
   */
  tell(report: Report): Promise<void> {
    const number = ++this.#reports;
    const message: Numbered = { number, report };
    return new Promise((resolve) => {
      this.#unconfirmed.set(number, resolve);
      // Without a parent this process ends, by 'disconnect'.
      process.send?.(message, undefined, undefined, () => {});
    });
  }

  #confirm(number: number): void {
    this.#unconfirmed.get(number)?.();
    this.#unconfirmed.delete(number);
  }
}
