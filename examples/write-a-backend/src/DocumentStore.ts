import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  emptyRecord,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type MeshRecord,
  type Moment,
  type Outgoing,
  type PaceAnswer,
  type PaceRequest,
  type Push,
  recordFromJson,
  recordToJson,
  type Store,
  type StoreView,
  transitions,
  type Waiting,
  type WaitingRequest,
} from '@botmesh/core/spi';
import type { SharedDocument } from './shared-document.js';

type Transition<Answer> = (record: MeshRecord, moment: Moment, pushes: Outgoing[]) => Answer;

/**
 * A Store in one shared document. Every step reads it, makes the reference transition, and replaces it: one step after
 * the other for the whole mesh. Right for a few replicas; a busy mesh wants a backend that makes the steps itself.
 */
export class DocumentStore implements Store {
  readonly #document: SharedDocument;
  readonly #nowMs: () => number;

  /** `nowMs` is the clock that judges who is alive: one for all replicas. */
  constructor(document: SharedDocument, nowMs: () => number = Date.now) {
    this.#document = document;
    this.#nowMs = nowMs;
  }

  /**
   * Sets a mesh up in a place that nobody has used before. Call it once, not at every start: a text that is missing
   * later is a loss, and the mesh then waits until every old trust is over.
   */
  static async create(document: SharedDocument): Promise<void> {
    const { number, home } = await document.read();
    if (number === 0) await document.replace(0, recordToJson({ ...emptyRecord(), run: home }));
  }

  join(request: JoinRequest): Promise<JoinAnswer> {
    return this.#step((record, moment, pushes) => transitions.join(record, request, moment, pushes));
  }

  apply(request: ApplyRequest): Promise<ApplyAnswer> {
    return this.#step((record, moment, pushes) => transitions.apply(record, request, moment, pushes));
  }

  beat(request: BeatRequest): Promise<BeatAnswer> {
    return this.#step((record, moment, pushes) => transitions.beat(record, request, moment, pushes));
  }

  leave(request: LeaveRequest): Promise<void> {
    return this.#step((record, moment, pushes) => transitions.leave(record, request, moment, pushes));
  }

  pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.#step((record, moment) => transitions.pace(record, request, moment));
  }

  async waiting(request: WaitingRequest): Promise<readonly Waiting[]> {
    return transitions.waiting(await this.#read(), request);
  }

  async inspect(): Promise<StoreView> {
    return transitions.inspect(await this.#read(), this.#nowMs());
  }

  async #read(): Promise<MeshRecord> {
    const { text } = await this.#document.read();
    return text === null ? emptyRecord() : recordFromJson(text);
  }

  subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    return this.#document.listen(instance, (hint) => listener(JSON.parse(hint) as Push));
  }

  close(): Promise<void> {
    return this.#document.close();
  }

  /** Somebody else was faster: read again. Made on the newer record, a step that was done answers as it did then. */
  async #step<Answer>(make: Transition<Answer>): Promise<Answer> {
    for (;;) {
      const { number, text, home } = await this.#document.read();
      const record = text === null ? emptyRecord() : recordFromJson(text);
      const pushes: Outgoing[] = [];
      const answer = make(record, { nowMs: this.#nowMs(), run: home }, pushes);
      if (!(await this.#document.replace(number, recordToJson(record)))) continue;
      // Only now: a grant that is pushed and then not written would be believed.
      for (const { instance, push } of pushes) void this.#push(instance, push);
      return answer;
    }
  }

  /** Heartbeats bring what gets lost here. */
  async #push(instance: string, push: Push): Promise<void> {
    await this.#document.send(instance, JSON.stringify(push)).catch(() => {});
  }
}
