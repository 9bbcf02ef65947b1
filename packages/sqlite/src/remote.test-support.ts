// For the tests of this package: stores in other processes, called from here.
import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import {
  type ApplyAnswer,
  type ApplyRequest,
  type BeatAnswer,
  type BeatRequest,
  ConfigError,
  type JoinAnswer,
  type JoinRequest,
  type LeaveRequest,
  type PaceAnswer,
  type PaceRequest,
  type Push,
  StaleFenceError,
  type StateStore,
  type Store,
  type StoredState,
  type StoreView,
  type Waiting,
  type WaitingRequest,
} from '@botmesh/core/spi';
import type { HostTime } from './SqliteStore.js';
import type { Traffic } from './traffic.test-support.js';

const HOST = fileURLToPath(new URL('../testing/store-host.mjs', import.meta.url));

interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly fence: number;
  readonly newestFence: number;
}

type Told =
  | { readonly driver: string }
  | { readonly call: number; readonly value?: unknown; readonly error?: PlainError }
  | { readonly store: number; readonly subscription: number; readonly push: Push }
  | { readonly store: number; readonly sent: string; readonly instance: string }
  | { readonly store: number; readonly heard: string };

/** What a store in another process tells of its own accord. */
interface Ears {
  push(subscription: number, push: Push): void;
  sent(push: string, instance: string): void;
  heard(push: string): void;
}

interface Call {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** A process that opens stores when told, and runs their methods. */
export class StoreProcess {
  readonly #child: ChildProcess;
  readonly #calls = new Map<number, Call>();
  readonly #ears = new Map<number, Ears>();
  readonly #driver: Promise<string>;
  #numbers = 0;
  #isGone = false;

  constructor() {
    this.#child = fork(HOST, {
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    });
    this.#driver = new Promise((resolve, reject) => {
      this.#child.on('message', (told: Told) => {
        if ('driver' in told) resolve(told.driver);
        else this.#hear(told);
      });
      this.#child.on('exit', (code, signal) => {
        const error = new Error(`The process of a store ended (${signal ?? code}).`);
        this.#isGone = true;
        reject(error);
        for (const call of this.#calls.values()) call.reject(error);
        this.#calls.clear();
      });
    });
    this.#driver.catch(() => {});
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** The name of the library it found. Resolves when the process runs. */
  get driver(): Promise<string> {
    return this.#driver;
  }

  /** Opens a store. The result runs a method of it. */
  open(kind: 'virtual' | 'steps' | 'real' | 'state', path: string, ears?: Ears) {
    const store = this.#number();
    if (ears !== undefined) this.#ears.set(store, ears);
    this.#send({ open: store, kind, path });
    return <T>(method: string, args: readonly unknown[], now?: HostTime): Promise<T> =>
      new Promise((resolve, reject) => {
        const call = this.#number();
        this.#calls.set(call, { resolve: (value) => resolve(value as T), reject });
        this.#send({ call, store, method, args, now });
      });
  }

  async end(): Promise<void> {
    if (this.#isGone) return;
    const gone = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.kill('SIGKILL');
    await gone;
  }

  #number(): number {
    this.#numbers += 1;
    return this.#numbers;
  }

  #send(message: object): void {
    // Where it cannot be sent, the process ends or has ended, and all calls are rejected by that.
    this.#child.send(message, () => {});
  }

  #hear(told: Exclude<Told, { driver: string }>): void {
    if ('call' in told) {
      const call = this.#calls.get(told.call);
      this.#calls.delete(told.call);
      if (told.error === undefined) call?.resolve(told.value);
      else call?.reject(revived(told.error));
      return;
    }
    const ears = this.#ears.get(told.store);
    if ('push' in told) ears?.push(told.subscription, told.push);
    else if ('sent' in told) ears?.sent(told.sent, told.instance);
    else ears?.heard(told.heard);
  }
}

function revived({ name, message, code, fence, newestFence }: PlainError): Error {
  if (name === 'StaleFenceError') return new StaleFenceError(fence, newestFence);
  if (name === 'ConfigError') return new ConfigError(message, code === 'config-mismatch' ? code : 'config');
  return Object.assign(new Error(message), { name, code });
}

export interface RemoteStoreOptions {
  readonly process: StoreProcess;
  readonly path: string;
  /** What the host's clocks show, sent with every request. Default: the store reads them itself. */
  readonly time?: (() => HostTime) | undefined;
  readonly traffic: Traffic;
  /** Never looks into the file for a push that was lost: a look comes when it comes. Default: it does. */
  readonly looks?: boolean | undefined;
}

/** A SqliteStore in another process. */
export class RemoteStore implements Store {
  readonly #time: () => HostTime | undefined;
  readonly #traffic: Traffic;
  readonly #call: <T>(method: string, args: readonly unknown[], now?: HostTime) => Promise<T>;
  readonly #listeners = new Map<number, { readonly instance: string; readonly hear: (push: Push) => void }>();
  #subscriptions = 0;

  constructor({ process, path, time, traffic, looks = true }: RemoteStoreOptions) {
    this.#time = time ?? (() => undefined);
    this.#traffic = traffic;
    this.#call = process.open(time === undefined ? 'real' : looks ? 'virtual' : 'steps', path, {
      push: (subscription, push) => this.#listeners.get(subscription)?.hear(push),
      sent: (push, instance) => traffic.sent(push, instance),
      heard: (push) => traffic.heard(push),
    });
  }

  join = (request: JoinRequest): Promise<JoinAnswer> => this.#run('join', request);
  apply = (request: ApplyRequest): Promise<ApplyAnswer> => this.#run('apply', request);
  beat = (request: BeatRequest): Promise<BeatAnswer> => this.#run('beat', request);
  leave = (request: LeaveRequest): Promise<void> => this.#run('leave', request);
  waiting = (request: WaitingRequest): Promise<readonly Waiting[]> => this.#run('waiting', request);
  pace = (request: PaceRequest): Promise<PaceAnswer> => this.#run('pace', request);
  inspect = (): Promise<StoreView> => this.#run('inspect');

  close(): Promise<void> {
    for (const subscription of this.#listeners.keys()) this.#end(subscription);
    return this.#run('close');
  }

  async subscribe(instance: string, hear: (push: Push) => void): Promise<() => Promise<void>> {
    this.#subscriptions += 1;
    const subscription = this.#subscriptions;
    this.#listeners.set(subscription, { instance, hear });
    this.#traffic.begin(instance);
    try {
      await this.#run('subscribe', instance, subscription);
    } catch (error) {
      this.#end(subscription);
      throw error;
    }
    return async () => {
      if (this.#end(subscription)) await this.#run('unsubscribe', subscription);
    };
  }

  #end(subscription: number): boolean {
    const listener = this.#listeners.get(subscription);
    if (listener === undefined) return false;
    this.#listeners.delete(subscription);
    this.#traffic.end(listener.instance);
    return true;
  }

  #run<T>(method: string, ...args: unknown[]): Promise<T> {
    return this.#traffic.during(this.#call<T>(method, args, this.#time()));
  }
}

/** A SqliteStateStore in another process. */
export class RemoteStateStore implements StateStore {
  readonly #call: <T>(method: string, args: readonly unknown[]) => Promise<T>;

  constructor(process: StoreProcess, path: string) {
    this.#call = process.open('state', path);
  }

  load = (key: string): Promise<StoredState | null> => this.#call('load', [key]);
  save = (key: string, value: unknown, fence: number): Promise<void> => this.#call('save', [key, value, fence]);
  delete = (key: string): Promise<void> => this.#call('delete', [key]);
  close = (): Promise<void> => this.#call('close', []);
}
