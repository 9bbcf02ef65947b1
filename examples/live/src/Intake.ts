import type { Delivery, Order, Report } from './protocol.js';
import type { Replica } from './Supervisor.js';

/** How long a replica may take to take a message in, before another one is asked. */
const ACCEPT_WITHIN_MS = 2_000;
const RETRY_AFTER_MS = 50;

export interface Replicas {
  next(): Promise<Replica>;
  send(replica: Replica, order: Order): void;
}

export interface IntakeOptions {
  readonly replicas: Replicas;
  /** Resolves when the answer is out. */
  readonly show: (chat: string, text: string) => Promise<void>;
  readonly tell: (notice: string) => void;
}

interface Offer {
  readonly replica: Replica;
  settle(isTaken: boolean): void;
}

/** The chat platform of this example: messages go to the replicas in turn, and answers come back, each shown once. */
export class Intake {
  readonly #replicas: Replicas;
  readonly #show: IntakeOptions['show'];
  readonly #tell: IntakeOptions['tell'];
  /** The last hand-over of each chat that has one under way. */
  readonly #underWay = new Map<string, Promise<void>>();
  readonly #offers = new Map<string, Offer>();
  readonly #shown = new Set<string>();
  /** The chat of each message that has no answer yet, by the message's id. */
  readonly #open = new Map<string, string>();
  #messages = 0;
  #whenAnswered: (() => void)[] = [];

  constructor({ replicas, show, tell }: IntakeOptions) {
    this.#replicas = replicas;
    this.#show = show;
    this.#tell = tell;
  }

  /** Gives a message its id. */
  receive(chat: string, text: string): Delivery {
    const id = `${++this.#messages}`;
    this.#open.set(id, chat);
    return { id, chat, text };
  }

  /** Resolves when a replica has taken the message in, after those of its chat before it. */
  deliver(message: Delivery): Promise<void> {
    const { chat } = message;
    const before = this.#underWay.get(chat) ?? Promise.resolve();
    const taken = before.then(() => this.#handOver(message));
    this.#underWay.set(chat, taken);
    void taken.then(() => {
      if (this.#underWay.get(chat) === taken) this.#underWay.delete(chat);
    });
    return taken;
  }

  async heard(report: Report): Promise<void> {
    switch (report.kind) {
      case 'accepted':
        this.#offers.get(report.id)?.settle(true);
        break;
      case 'refused':
        this.#refused(report);
        break;
      case 'answer':
        // A message taken over is answered from the start: what its first replica had already sent has the same key.
        if (this.#shown.has(report.key)) return;
        this.#shown.add(report.key);
        await this.#show(report.chat, report.text);
        break;
      case 'handled':
      case 'parked':
        this.#settle(report.id);
        break;
    }
  }

  /** What the dead one had not taken in is offered to others. */
  died({ number }: Replica): void {
    for (const offer of this.#offers.values()) if (offer.replica.number === number) offer.settle(false);
  }

  /** Which chats have how many messages without an answer, in words; empty iff there are none. */
  get unanswered(): string {
    const counts = new Map<string, number>();
    for (const chat of this.#open.values()) counts.set(chat, (counts.get(chat) ?? 0) + 1);
    return [...counts].map(([chat, count]) => `${chat} (${count} ${count === 1 ? 'message' : 'messages'})`).join(', ');
  }

  /** Resolves when every message has its answer. */
  answered(): Promise<void> {
    if (this.#open.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenAnswered.push(resolve));
  }

  /** Offers the message until one replica has taken it in. The id keeps it from being taken in twice. */
  async #handOver(message: Delivery): Promise<void> {
    while (this.#open.has(message.id)) {
      const replica = await this.#replicas.next();
      if (await this.#offer(replica, message)) return;
    }
  }

  #offer(replica: Replica, message: Delivery): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (isTaken: boolean): void => {
        clearTimeout(timer);
        this.#offers.delete(message.id);
        resolve(isTaken);
      };
      // A process that was frozen from outside says nothing, and is not dead.
      const timer = setTimeout(() => settle(false), ACCEPT_WITHIN_MS);
      this.#offers.set(message.id, { replica, settle });
      this.#replicas.send(replica, { kind: 'deliver', message });
    });
  }

  #refused({ id, why, mayPass }: Extract<Report, { kind: 'refused' }>): void {
    const offer = this.#offers.get(id);
    if (offer === undefined) return;
    if (!mayPass) {
      this.#tell(`message ${id} is refused: ${why}`);
      this.#settle(id);
    }
    setTimeout(() => offer.settle(false), RETRY_AFTER_MS);
  }

  #settle(id: string): void {
    this.#open.delete(id);
    if (this.#open.size > 0) return;
    for (const resolve of this.#whenAnswered.splice(0)) resolve();
  }
}
