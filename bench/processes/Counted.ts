/** What happened in the part of a run that counts. */
export interface Count {
  readonly countedMs: number;
  readonly turns: number;
  /** Of the whole process, garbage collection and all. */
  readonly cpuMs: number;
}

interface Look {
  readonly atMs: number;
  readonly turns: number;
  readonly cpu: NodeJS.CpuUsage;
}

/**
 * Counts from the first look after `fromMs` to the first after `untilMs`. Looks come from a timer and from every turn: a
 * subject whose calls are all synchronous lets no timer run.
 */
export class Counted {
  readonly #fromMs: number;
  readonly #untilMs: number;
  #first: Look | undefined;
  #last: Look | undefined;

  constructor(fromMs: number, untilMs: number) {
    this.#fromMs = fromMs;
    this.#untilMs = untilMs;
  }

  look(nowMs: number, turns: number): void {
    if (nowMs < this.#fromMs || this.#last !== undefined) return;
    if (this.#first === undefined) this.#first = lookAt(nowMs, turns);
    else if (nowMs >= this.#untilMs) this.#last = lookAt(nowMs, turns);
  }

  end(nowMs: number, turns: number): Count {
    const first = this.#first ?? lookAt(nowMs, turns);
    const last = this.#last ?? lookAt(nowMs, turns);
    const { user, system } = last.cpu;
    const cpuMs = (user + system - first.cpu.user - first.cpu.system) / 1000;
    return { countedMs: last.atMs - first.atMs, turns: last.turns - first.turns, cpuMs };
  }
}

function lookAt(atMs: number, turns: number): Look {
  return { atMs, turns, cpu: process.cpuUsage() };
}
