import type { StoreView } from '@botmesh/core/spi';
import { type Counts, Proof } from './Proof.js';
import { type Delivery, LEADERSHIP, type Report } from './protocol.js';
import type { Replica, ReplicaState } from './Supervisor.js';

const LINES_A_CHAT = 60;
const TURNS_FOR_MS = 60_000;
const MOST_TURNS = 1_000;
const LONGEST_TEXT = 200;
const NOTICED_WITHIN_MS = 1_000;

/** All that the page shows. */
export interface View {
  readonly nowMs: number;
  readonly replicas: readonly { number: number; pid: number | undefined; state: ReplicaState; lives: number }[];
  readonly chats: readonly ChatView[];
  readonly turns: readonly Turn[];
  readonly leader: { readonly replica: string; readonly term: number } | null;
  readonly proof: Counts;
}

interface ChatView {
  readonly name: string;
  /** The replica that has the turn, by the record in the file. */
  readonly holder: string | null;
  /** How many messages wait behind it, by the record in the file. */
  readonly waiting: number;
  readonly lines: readonly Line[];
}

interface Line {
  readonly id: string;
  readonly text: string;
  state: 'waiting' | 'running' | 'handled';
  answer?: string;
}

/** One attempt at one message. */
interface Turn {
  readonly chat: string;
  readonly id: string;
  readonly replica: number;
  readonly attempt: number;
  readonly text: string;
  readonly fromMs: number;
  toMs?: number;
  end?: 'handled' | 'lost' | 'killed';
}

/** Keeps what there is to see: what replicas report, what came in and what was answered, and the record in the file. */
export class Board {
  readonly #proof = new Proof();
  readonly #lines = new Map<string, Line[]>();
  readonly #chatOf = new Map<string, string>();
  readonly #now: () => number;
  /** The running turn of each chat that has one. */
  readonly #running = new Map<string, Turn>();
  /** All that there are to show, the oldest first. */
  #turns: Turn[] = [];

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  received({ id, chat, text }: Delivery): void {
    this.#proof.received(chat, id);
    const lines = this.#lines.get(chat) ?? [];
    this.#lines.set(chat, lines);
    lines.push({ id, text: clip(text), state: 'waiting' });
    this.#chatOf.set(id, chat);
    if (lines.length > LINES_A_CHAT) this.#chatOf.delete(lines.shift()?.id ?? '');
  }

  heard({ number }: Replica, report: Report): void {
    switch (report.kind) {
      case 'began':
        this.#proof.began(report.id, report.attempt);
        this.#begin(number, report);
        break;
      case 'handled':
        this.#proof.handled(report.chat, report.id, report.count);
        this.#end(this.#turnOf(number, report), 'handled');
        break;
      case 'broken-off':
        this.#end(this.#turnOf(number, report), 'lost');
        break;
    }
  }

  died({ number }: Replica): void {
    for (const turn of this.#running.values()) if (turn.replica === number) this.#end(turn, 'killed');
    // Whoever took the chat over may have been heard before the system told of the death.
    for (const turn of this.#turns) {
      const { replica, end, toMs = 0 } = turn;
      if (replica === number && end === 'lost' && this.#now() - toMs < NOTICED_WITHIN_MS) turn.end = 'killed';
    }
  }

  shown(chat: string, text: string): void {
    // The turns of a chat do not overlap: the answer is that of the one running.
    const id = this.#running.get(chat)?.id;
    if (id === undefined) return;
    this.#proof.shown(id);
    const line = this.#line(id);
    if (line !== undefined) line.answer = clip(text);
  }

  view(replicas: readonly Replica[], record: StoreView | undefined): View {
    const nowMs = this.#now();
    this.#turns = this.#turns.filter(({ toMs = nowMs }) => nowMs - toMs < TURNS_FOR_MS);
    const owner = new Map(record?.replicas.map(({ epoch, replicaId }) => [epoch, replicaId]));
    const queues = new Map(record?.queues.map((queue) => [queue.key, queue]));
    const leading = queues.get(`l:${LEADERSHIP}`)?.head;
    const leader = leading === undefined || leading.fence === 0 ? undefined : owner.get(leading.epoch);
    return {
      nowMs,
      replicas: replicas.map(({ number, pid, state, lives }) => ({ number, pid, state, lives })),
      chats: [...this.#lines].map(([name, lines]) => {
        const queue = queues.get(`c:${name}`);
        const isHeld = queue !== undefined && queue.head.fence !== 0;
        const holder = isHeld ? (owner.get(queue.head.epoch) ?? null) : null;
        return { name, holder, waiting: queue?.waiting ?? 0, lines };
      }),
      turns: this.#turns,
      leader: leading === undefined || leader === undefined ? null : { replica: leader, term: leading.fence },
      proof: this.#proof.counts,
    };
  }

  /** The same in a few lines of text. */
  summary(replicas: readonly Replica[], record: StoreView): string[] {
    const { chats, leader } = this.view(replicas, record);
    return [
      ...replicas.map(({ number, state, pid }) => {
        const leads = leader?.replica === `${number}` ? ', leads' : '';
        return `replica ${number}: ${state}, process ${pid}${leads}`;
      }),
      ...chats
        .filter(({ holder, waiting }) => holder !== null || waiting > 0)
        .map(({ name, holder, waiting }) => `chat ${name}: held by replica ${holder ?? '?'}, ${waiting} waiting`),
    ];
  }

  #begin(replica: number, { id, chat, attempt }: Extract<Report, { kind: 'began' }>): void {
    // Whoever had the chat before and did not end is passed over.
    this.#end(this.#running.get(chat), 'lost');
    const line = this.#line(id);
    if (line !== undefined) line.state = 'running';
    const turn: Turn = { chat, id, replica, attempt, text: line?.text ?? '', fromMs: this.#now() };
    this.#running.set(chat, turn);
    this.#turns.push(turn);
    if (this.#turns.length > 2 * MOST_TURNS) this.#turns = this.#turns.slice(-MOST_TURNS);
  }

  #turnOf(replica: number, { id, chat }: { id: string; chat: string }): Turn | undefined {
    const turn = this.#running.get(chat);
    return turn?.replica === replica && turn.id === id ? turn : undefined;
  }

  #end(turn: Turn | undefined, end: NonNullable<Turn['end']>): void {
    if (turn === undefined) return;
    turn.toMs = this.#now();
    turn.end = end;
    this.#running.delete(turn.chat);
    const line = this.#line(turn.id);
    if (line !== undefined) line.state = end === 'handled' ? 'handled' : 'waiting';
  }

  #line(id: string): Line | undefined {
    return this.#lines.get(this.#chatOf.get(id) ?? '')?.findLast((line) => line.id === id);
  }
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
