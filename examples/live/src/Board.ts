import type { StoreView } from '@botmesh/core/spi';
import { type Counts, Proof } from './Proof.js';
import { type Delivery, LEADERSHIP, type Report } from './protocol.js';
import type { Replica, ReplicaState } from './Supervisor.js';

const LINES_A_CHAT = 60;
const TURNS_FOR_MS = 90_000;
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
        this.#end((turn) => turn.replica === number && turn.id === report.id, 'handled');
        break;
      case 'broken-off':
        this.#end((turn) => turn.replica === number && turn.id === report.id, 'lost');
        break;
    }
  }

  died({ number }: Replica): void {
    this.#end((turn) => turn.replica === number, 'killed');
    // Whoever took the chat over may have been heard before the system told of the death.
    for (const turn of this.#turns) {
      const { replica, end, toMs = 0 } = turn;
      if (replica === number && end === 'lost' && this.#now() - toMs < NOTICED_WITHIN_MS) turn.end = 'killed';
    }
  }

  shown(chat: string, text: string): void {
    // The turns of a chat do not overlap: the answer is that of the one running.
    const line = this.#lines.get(chat)?.findLast(({ state }) => state === 'running');
    if (line === undefined) return;
    this.#proof.shown(line.id);
    line.answer = clip(text);
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
    this.#end((turn) => turn.chat === chat, 'lost');
    const line = this.#line(id);
    if (line !== undefined) line.state = 'running';
    this.#turns.push({ chat, id, replica, attempt, text: line?.text ?? '', fromMs: this.#now() });
  }

  #end(isMeant: (turn: Turn) => boolean, end: NonNullable<Turn['end']>): void {
    for (const turn of this.#turns) {
      if (turn.end !== undefined || !isMeant(turn)) continue;
      turn.toMs = this.#now();
      turn.end = end;
      const line = this.#line(turn.id);
      if (line !== undefined) line.state = end === 'handled' ? 'handled' : 'waiting';
    }
  }

  #line(id: string): Line | undefined {
    return this.#lines.get(this.#chatOf.get(id) ?? '')?.findLast((line) => line.id === id);
  }
}

function clip(text: string): string {
  return text.length > LONGEST_TEXT ? `${text.slice(0, LONGEST_TEXT)}…` : text;
}
