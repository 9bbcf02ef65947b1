export interface HeapTimer {
  readonly atMs: number;
  readonly run: () => void;
}

interface Node extends HeapTimer {
  readonly order: number;
  /** Where it stands in the heap; -1 once taken or removed. */
  index: number;
}

/** Timers by time, and by the order in which they were added where times are equal. */
export class TimerHeap {
  readonly #nodes: Node[] = [];
  #added = 0;

  get size(): number {
    return this.#nodes.length;
  }

  nextMs(): number | undefined {
    return this.#nodes[0]?.atMs;
  }

  add(atMs: number, run: () => void): object {
    this.#added += 1;
    const node: Node = { atMs, run, order: this.#added, index: this.#nodes.length };
    this.#nodes.push(node);
    this.#rise(node);
    return node;
  }

  /** The next timer, removed. Only when there is one. */
  take(): HeapTimer {
    const first = this.#nodes[0];
    if (first === undefined) throw new RangeError('No timer is set.');
    this.remove(first);
    return first;
  }

  /** Unknown, taken and removed timers are ignored. */
  remove(timer: object): void {
    const node = timer as Node;
    const at = node.index;
    if (this.#nodes[at] !== node) return;
    node.index = -1;
    const last = this.#nodes.pop()!;
    if (last === node) return;
    last.index = at;
    this.#nodes[at] = last;
    this.#rise(last);
    this.#sink(last);
  }

  #rise(node: Node): void {
    const nodes = this.#nodes;
    while (node.index > 0) {
      const parent = nodes[(node.index - 1) >> 1]!;
      if (isBefore(parent, node)) return;
      this.#swap(node, parent);
    }
  }

  #sink(node: Node): void {
    const nodes = this.#nodes;
    for (;;) {
      const left = nodes[node.index * 2 + 1];
      if (left === undefined) return;
      const right = nodes[node.index * 2 + 2];
      const child = right !== undefined && isBefore(right, left) ? right : left;
      if (isBefore(node, child)) return;
      this.#swap(child, node);
    }
  }

  #swap(upper: Node, lower: Node): void {
    const { index } = upper;
    upper.index = lower.index;
    lower.index = index;
    this.#nodes[upper.index] = upper;
    this.#nodes[lower.index] = lower;
  }
}

function isBefore(a: Node, b: Node): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
