import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type PaceAnswer,
  type PaceRequest,
  type Push,
  type Store,
  type StoreView,
  transitions,
  type Waiting,
  type WaitingRequest,
} from '@botmesh/core/spi';
import { Log, type LogOptions } from './log/Log.js';

export type NatsStoreOptions = LogOptions;

/**
 * The protocol's steps on NATS JetStream, for one shard: each is one message of a log. Every replica reads all of it, and
 * makes the reference's own steps on its own copy of the record.
 */
export class NatsStore implements Store {
  readonly log: Log;

  constructor(options: NatsStoreOptions) {
    this.log = new Log(options);
  }

  join(request: JoinRequest): Promise<JoinAnswer> {
    return this.log.step('join', request);
  }

  apply(request: ApplyRequest): Promise<ApplyAnswer> {
    return this.log.step('apply', request);
  }

  beat(request: BeatRequest): Promise<BeatAnswer> {
    return this.log.step('beat', request);
  }

  leave(request: LeaveRequest): Promise<void> {
    return this.log.step('leave', request);
  }

  async waiting(request: WaitingRequest): Promise<readonly Waiting[]> {
    return transitions.waiting((await this.log.record()).record, request);
  }

  pace(request: PaceRequest): Promise<PaceAnswer> {
    return this.log.step('pace', request);
  }

  subscribe(instance: string, listener: (push: Push) => void): Promise<() => Promise<void>> {
    return this.log.listen(instance, listener);
  }

  async inspect(): Promise<StoreView> {
    const { nowMs, record } = await this.log.record();
    return transitions.inspect(record, nowMs);
  }

  close(): Promise<void> {
    return this.log.close();
  }
}
