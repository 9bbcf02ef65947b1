/** One handled message. Times are microseconds of the host's monotonic clock, which its processes share. */
export interface Turn {
  readonly chat: number;
  /** The process that handled it. */
  readonly lane: number;
  /** The process that submitted it. */
  readonly from: number;
  /** The `number`th that that process submitted for its chat, from 1 up. */
  readonly number: number;
  /** 0 where the subject has none. */
  readonly fence: number;
  readonly calledUs: number;
  /** When its place in the queue was sure; 0 where that is not known. */
  readonly placedUs: number;
  readonly startedUs: number;
  readonly endedUs: number;
}

const FIELDS = 8;

/** Turns as they happen, kept without an object for each: what it costs is little, and the same for every subject. */
export class TurnLog {
  #fields = new Float64Array(FIELDS * 4096);
  #length = 0;

  get count(): number {
    return this.#length / FIELDS;
  }

  add(turn: Omit<Turn, 'lane'>): void {
    if (this.#length === this.#fields.length) this.#grow();
    const { chat, from, number, fence, calledUs, placedUs, startedUs, endedUs } = turn;
    const at = this.#length;
    this.#fields[at] = chat;
    this.#fields[at + 1] = number;
    this.#fields[at + 2] = fence;
    this.#fields[at + 3] = calledUs;
    this.#fields[at + 4] = placedUs;
    this.#fields[at + 5] = startedUs;
    this.#fields[at + 6] = endedUs;
    this.#fields[at + 7] = from;
    this.#length += FIELDS;
  }

  /** To be sent to another process. */
  packed(): Float64Array {
    return this.#fields.slice(0, this.#length);
  }

  #grow(): void {
    const larger = new Float64Array(this.#fields.length * 2);
    larger.set(this.#fields);
    this.#fields = larger;
  }
}

/** What `packed` packed in process `lane`. */
export function unpacked(fields: Float64Array, lane: number): Turn[] {
  const turns: Turn[] = [];
  for (let at = 0; at < fields.length; at += FIELDS) {
    const [chat, number, fence, calledUs, placedUs, startedUs, endedUs, from] = fields.subarray(
      at,
      at + FIELDS,
    ) as unknown as [...[number, number, number, number, number, number, number, number]];
    turns.push({ chat, lane, from, number, fence, calledUs, placedUs, startedUs, endedUs });
  }
  return turns;
}
