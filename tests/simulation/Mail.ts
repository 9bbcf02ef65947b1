import type { MailTurn } from '@botmesh/core/spi';
import { seededRandom } from '@botmesh/core/testing';
import type { Life } from './Life.js';
import type { World } from './World.js';

/** What a run checks of the part of the coordinator that the contract does not ask for. Chance of its own: see `mailOf`. */
export class Mail {
  readonly #world: World;
  readonly #random: () => number;
  /** Messages that were finished together with a turn before them. */
  readonly #finished = new Set<string>();
  readonly #passers = new Set<Life>();
  /** Notes by their text, and for which key. */
  readonly #notes = new Map<string, string>();
  readonly #heard = new Set<string>();

  constructor(world: World) {
    this.#world = world;
    this.#random = seededRandom(world.seed * 1_597_334_677);
  }

  chance(share: number): boolean {
    return this.#random() < share;
  }

  #oneOf<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)] as T;
  }

  /** Something that needs no turn. Rejects as the coordinator does. */
  async act(life: Life, key: string): Promise<void> {
    const kind = Math.floor(this.#random() * 10);
    if (kind < 5) return this.#tell(life, key);
    if (kind < 7) return this.#pace(life);
    if (kind < 9) return this.#lookAfterParked(life);
    this.#world.count('seen: passed what waits');
    this.#passers.add(life);
    life.coordinator.passWaiting();
  }

  async #tell(life: Life, key: string): Promise<void> {
    const note = `note ${this.#notes.size}`;
    this.#notes.set(note, key);
    await life.call(`tell ${key}`, () => life.coordinator.tell(key, note));
  }

  /** Notes for a turn that was just granted. */
  listen(life: Life, turn: MailTurn): void {
    life.coordinator.onTold(turn, (note) => {
      this.#world.count('seen: note');
      if (this.#heard.has(note)) this.#world.violate(`${life.name} heard ${note} a second time`);
      if (this.#notes.get(note) !== turn.key) this.#world.violate(`${life.name} heard ${note} for ${turn.key}`);
      this.#heard.add(note);
    });
  }

  async #pace(life: Life): Promise<void> {
    const pauseMs = this.chance(0.1) ? 5000 : 0;
    const waitMs = await life.call('pace', () => life.coordinator.pace('pace', { costMs: 100, burstMs: 500, pauseMs }));
    if (!(waitMs >= 0 && waitMs <= 3_600_000)) this.#world.violate(`${life.name} has to wait ${waitMs} ms for a slot`);
  }

  async #lookAfterParked(life: Life): Promise<void> {
    const parked = await life.call('parked', () => life.coordinator.parked());
    if (parked.length === 0) return;
    const { key, seq } = this.#oneOf(parked);
    const how = this.chance(0.7) ? 'replay' : 'drop';
    this.#world.count(`seen: ${how}`);
    // What becomes of it under its new number nobody follows, and its id may be free again.
    this.#world.record({ kind: 'withdrawn', at: this.#world.now(), replica: life.name, key, seq });
    await life.call(`${how} ${key}`, () => life.coordinator[how](key, seq));
  }

  /** Messages to finish together with `turn`: now and then, some of the first that wait behind it. */
  async behind(life: Life, turn: MailTurn): Promise<number[]> {
    if (!this.chance(0.3)) return [];
    const limit = 1 + Math.floor(this.#random() * 3);
    const waiting = await life.call(`waiting ${turn.key}`, () => life.coordinator.waiting(turn, limit)).catch(() => []);
    for (const { seq, body } of waiting) {
      if (seq <= turn.seq) this.#world.violate(`${life.name} was shown ${seq} as waiting behind ${turn.seq}`);
      if (!body.endsWith(` for ${turn.key}`)) this.#world.violate(`${life.name} was shown ${body} behind ${turn.key}`);
    }
    return waiting.map(({ seq }) => seq);
  }

  finished(life: Life, key: string, seqs: readonly number[]): void {
    for (const seq of seqs) {
      this.#world.count('seen: finished behind a turn');
      this.#finished.add(`${seq} ${key}`);
      this.#world.record({ kind: 'handled', at: this.#world.now(), replica: life.name, key, seq });
    }
  }

  /** Whether a ticket may be refused its turn so, because of what was done here. */
  explains(life: Life, key: string, seq: number, kind: string): boolean {
    if (kind === 'lease-lost superseded') return this.#finished.has(`${seq} ${key}`);
    return this.#passers.has(life) && (kind === 'lease-lost stopped' || kind === 'ticket-used');
  }
}

const mails = new WeakMap<World, Mail>();

/** Only some runs have it: the seeds that once found something keep theirs as they were. */
export function mailOf(world: World): Mail | undefined {
  if (world.seed % 7 !== 2 && world.seed % 7 !== 6) return undefined;
  const mail = mails.get(world) ?? new Mail(world);
  mails.set(world, mail);
  return mail;
}
