import {
  BadInputError,
  CoordinationUnavailableError,
  type Intake,
  LeaseLostError,
  LifecycleError,
  messageOf,
  orderOf,
  type Provider,
} from '@botmesh/core/spi';
import { idOf, type Keying, keysOf, kindOf, nameOf } from './arrival.js';
import type { Body, BoltApp, BoltEvent, ReceiverInside } from './bolt.js';
import { Socket } from './Socket.js';
import { storedOf } from './turn.js';

/** One mesh runs one app, so its account needs no name of its own. */
export const ACCOUNT = 'slack';

const LONGEST_BODY = 4 * 1024 * 1024;

export interface LineSetup {
  readonly keys: Keying;
  readonly atOnce: readonly string[];
  readonly log: (line: string) => void;
}

/** From the receiver of an app to the mesh. */
export class Line {
  readonly processEvent: BoltApp['processEvent'];
  readonly provider: Omit<Provider, 'send'>;
  readonly #app: BoltApp;
  readonly #receiver: ReceiverInside;
  readonly #setup: LineSetup;
  readonly #start: BoltApp['start'];
  readonly #stop: BoltApp['stop'];
  readonly #told = new Set<string>();
  readonly #socket: Socket | undefined;
  #intake: Intake | undefined;
  #args: unknown[] = [];
  #started: unknown;
  #isListening = false;

  constructor(app: BoltApp, receiver: ReceiverInside, setup: LineSetup) {
    this.#app = app;
    this.#receiver = receiver;
    this.#setup = setup;
    this.processEvent = app.processEvent.bind(app);
    this.#start = app.start.bind(app);
    this.#stop = app.stop.bind(app);
    this.#socket = receiver.client === undefined ? undefined : new Socket(receiver.client, setup.log);
    this.provider = this.#socket === undefined ? this.#overHttp() : this.#overSocket(this.#socket);
  }

  /** From here on the receiver hands its events to the mesh, and the app starts and stops with it. */
  take(start: () => Promise<void>, stop: () => Promise<void>): void {
    this.#receiver.init({ processEvent: (event) => this.#take(event) });
    this.#socket?.attach();
    this.#refuseRightly();
    limitBodies(this.#receiver);
    this.#app.start = async (...args) => {
      this.#args = args;
      await start();
      return this.#started;
    };
    this.#app.stop = () => stop();
  }

  #overHttp(): Omit<Provider, 'send'> {
    return {
      name: ACCOUNT,
      start: async (intake) => {
        this.#intake = intake;
        this.#started = await this.#start(...this.#args);
        this.#isListening = true;
      },
      stop: async () => {
        this.#intake = undefined;
        if (this.#isListening) await this.#stop();
        this.#isListening = false;
      },
      // It receives by the receiver's own server. That it receives so is known by this.
      webhook: () => Promise.resolve(new Response(null, { status: 404 })),
    };
  }

  #overSocket(socket: Socket): Omit<Provider, 'send'> {
    return {
      name: ACCOUNT,
      exclusive: 'receiving',
      start: async (intake, lead) => {
        this.#intake = intake;
        await socket.start(lead, () => this.#start(...this.#args));
      },
      stop: async () => {
        this.#intake = undefined;
        await socket.stop(() => this.#stop());
      },
    };
  }

  /** Nothing is awaited before the event has its place. */
  async #take(event: BoltEvent): Promise<void> {
    const { body } = event;
    if (typeof body !== 'object' || body === null) throw new BadInputError('mesh(): Slack sent no object.');
    if (this.#isAtOnce(body)) {
      await this.processEvent(event);
      return;
    }
    if (kindOf(body) === 'unknown') this.#tellUnknown(body);
    if (this.#intake === undefined) {
      throw new LifecycleError('not-started', 'mesh(): this replica takes nothing in. Call app.start() first.');
    }
    await this.#intake(
      messageOf({
        account: ACCOUNT,
        id: idOf(body),
        keys: this.#keysOf(body),
        kind: kindOf(body),
        update: storedOf(event),
      }),
    );
    // It is ours whether Slack hears so or not: what comes again is known by its id.
    await event.ack().catch(() => {});
  }

  #isAtOnce(body: Body): boolean {
    const needsAnswer = kindOf(body) === 'options' || body.type === 'dialog_submission';
    return needsAnswer || (kindOf(body) !== 'event' && this.#setup.atOnce.includes(nameOf(body)));
  }

  #keysOf(body: Body): readonly string[] {
    return orderOf(keysOf(body, this.#setup.keys), 'mesh(): keys');
  }

  #tellUnknown(body: Body): void {
    const name = nameOf(body);
    if (this.#told.has(name)) return;
    this.#told.add(name);
    this.#setup.log(
      `botmesh: WARNING: Slack sent something of type ${name}, of which neither Bolt nor this binding knows what it is. It is ` +
        'taken in and acknowledged, but no listener of the app will hear of it. A newer version may.',
    );
  }

  /** Over HTTP, what was not taken in is answered by 503, so that Slack delivers it again; in Socket Mode by silence. */
  #refuseRightly(): void {
    const receiver = this.#receiver;
    const before = receiver.processEventErrorHandler;
    if (before === undefined) return;
    receiver.processEventErrorHandler = async (failure) => {
      const status = statusOf(failure.error);
      if (status === undefined) return before.call(receiver, failure);
      if (status === 400)
        this.#setup.log(`botmesh: something that Slack sent cannot be taken in: ${textOf(failure.error)}`);
      const { response } = failure;
      if (response === undefined) return false;
      if (!response.headersSent) response.writeHead(status, status === 503 ? { 'retry-after': '1' } : {});
      response.end();
      return true;
    };
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : typeof error;
}

/** Bolt 4 reads a body of any length. Here it is refused from where Bolt 5 does, before it is read. */
function limitBodies(receiver: ReceiverInside): void {
  const { requestListener, bodyLimit } = receiver;
  if (requestListener === undefined || bodyLimit !== undefined) return;
  receiver.requestListener = (request, response) => {
    if (Number(request.headers['content-length'] ?? 0) <= LONGEST_BODY) return requestListener(request, response);
    // The rest of the body is not waited for.
    response.writeHead(413, { connection: 'close' }).end();
    return undefined;
  };
}

/** Undefined for what is none of ours. */
function statusOf(error: unknown): 503 | 400 | undefined {
  if (error instanceof BadInputError) return 400;
  const isPassing =
    error instanceof CoordinationUnavailableError || error instanceof LifecycleError || error instanceof LeaseLostError;
  return isPassing ? 503 : undefined;
}
