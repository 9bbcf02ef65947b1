import { setTimeout as sleep } from 'node:timers/promises';
import { type Intake, type Lead, LifecycleError, type Provider } from '@botmesh/core/spi';
import { type Answer, take } from './answer.js';
import { type Body, of, text } from './arrival.js';
import { Connection, type Frame, webSocket } from './Connection.js';
import { isTokenRefused, SlackError } from './errors.js';
import type { Call } from './web-api.js';

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 30_000;
/** A connection that lived so long was a good one: the next one is tried at once. */
const GOOD_MS = 10_000;
/** How long acknowledgements of what is being taken in are waited for, before a connection is closed. */
const SETTLE_MS = 3_000;
/** Slack asks every few seconds whether we are there, and renews a connection within the hour. */
const QUIET_MS = 300_000;

export interface SocketSetup {
  /** With the app's token. */
  readonly call: Call;
  readonly hook: Answer | undefined;
  readonly log: (line: string) => void;
}

/**
 * Receives by Socket Mode: while this replica leads, one connection after the other, and never two. An envelope is
 * acknowledged when it is taken in; until then Slack keeps it. `start` rejects when the first connection does not come about,
 * so that another replica may try.
 */
export function socketMode(setup: SocketSetup): Pick<Provider, 'exclusive' | 'start' | 'stop'> {
  let line: Line | undefined;
  return {
    exclusive: 'receiving',
    start: async (intake, lead) => {
      await line?.stop();
      line = new Line(setup, intake, lead);
      await line.start();
    },
    stop: async () => line?.stop(),
  };
}

/** One start of the provider, to its stop. */
class Line {
  readonly #setup: SocketSetup;
  readonly #intake: Intake;
  readonly #lead: Lead | undefined;
  readonly #stopping = new AbortController();
  /** Envelopes that are being taken in. */
  readonly #taking = new Set<Promise<void>>();
  #running: Promise<void> = Promise.resolve();

  constructor(setup: SocketSetup, intake: Intake, lead: Lead | undefined) {
    this.#setup = setup;
    this.#intake = intake;
    this.#lead = lead;
    if (lead?.signal.aborted) this.#stopping.abort();
    lead?.signal.addEventListener('abort', () => this.#stopping.abort(), { once: true });
  }

  async start(): Promise<void> {
    const first = this.#connect();
    this.#running = first.then((connection) => this.#keep(connection)).catch(() => {});
    await first;
  }

  /** Nothing is taken in any more. Resolves when what was being taken in is acknowledged, or late, and the connection is gone. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #keep(first: Connection): Promise<void> {
    let connection: Connection | undefined = first;
    let delayMs = FIRST_DELAY_MS;
    while (!this.#stopping.signal.aborted) {
      const sinceMs = Date.now();
      if (connection !== undefined) await this.#serve(connection);
      const wasGood = connection !== undefined && Date.now() - sinceMs > GOOD_MS;
      if (wasGood) delayMs = FIRST_DELAY_MS;
      else {
        await pause(delayMs, this.#stopping.signal);
        delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS);
      }
      connection = await this.#connectAgain();
    }
    if (connection !== undefined) await this.#close(connection);
  }

  /** Resolves when the connection is gone, or when nothing is to be taken in any more. */
  async #serve(connection: Connection): Promise<void> {
    await untilAborted(this.#stopping.signal, connection.closed);
    if (this.#stopping.signal.aborted) await this.#close(connection);
  }

  async #connectAgain(): Promise<Connection | undefined> {
    try {
      return this.#stopping.signal.aborted ? undefined : await this.#connect();
    } catch (error) {
      if (this.#stopping.signal.aborted) return undefined;
      // Another replica may have the next one already.
      if (isTokenRefused(error) && this.#lead?.giveUp !== undefined) {
        this.#stopping.abort();
        this.#lead.giveUp(error);
        return undefined;
      }
      const what = error instanceof Error ? error.message : 'the connection was closed';
      this.#setup.log(`botmesh: Slack: the socket could not be opened again (${what}). It is tried again.`);
      return undefined;
    }
  }

  /** Each step asks whether this replica still leads: who does not may not connect. */
  async #connect(): Promise<Connection> {
    const { signal } = this.#stopping;
    this.#assertLeads();
    const Make = await webSocket();
    const { url } = await this.#setup.call('apps.connections.open', {}, signal);
    this.#assertLeads();
    // The address is a ticket: an error of the socket would name it.
    if (typeof url !== 'string' || !/^wss?:/.test(url) || !URL.canParse(url)) {
      throw new SlackError('no error', 'apps.connections.open gave no address of a WebSocket');
    }
    const opened: Connection = new Connection(Make, url, QUIET_MS, (frame) => this.#hear(opened, frame));
    const greeted = opened.greeted();
    await untilAborted(signal, greeted);
    if (!signal.aborted && (await greeted)) return opened;
    await opened.close();
    throw new LifecycleError('stopped', 'slack: the socket was closed before Slack had greeted.');
  }

  #assertLeads(): void {
    if (this.#stopping.signal.aborted) {
      throw new LifecycleError('stopped', 'slack: this replica is not the one that may connect to Slack.');
    }
    this.#lead?.assertHeld();
  }

  #hear(connection: Connection, frame: Frame): void {
    if (this.#stopping.signal.aborted) return;
    if (frame.type === 'disconnect') {
      if (frame.reason === 'link_disabled') {
        this.#setup.log('botmesh: Slack: Socket Mode was switched off for this app. It is tried again all the same.');
      }
      // The next connection comes when this one is gone.
      void this.#close(connection);
      return;
    }
    const id = text(frame.envelope_id);
    if (id === undefined) return;
    const taking: Promise<void> = this.#take(connection, id, of(frame.payload)).finally(() => {
      this.#taking.delete(taking);
    });
    this.#taking.add(taking);
  }

  /** What was not taken in is not acknowledged: Slack delivers it again. */
  async #take(connection: Connection, id: string, body: Body): Promise<void> {
    try {
      const { answer } = await take(body, this.#intake, this.#setup.hook);
      connection.acknowledge(id, answer);
    } catch (error) {
      const code = (error as { code?: unknown }).code;
      const what = typeof code === 'string' ? code : error instanceof Error ? error.name : typeof error;
      this.#setup.log(`botmesh: Slack: something was not taken in (${what}). Slack delivers events again.`);
    }
  }

  async #close(connection: Connection): Promise<void> {
    // A lost leadership is not waited for: the next leader connects.
    const lost = this.#lead?.signal;
    if (lost?.aborted !== true) {
      const settled = new AbortController();
      void Promise.all(this.#taking).then(() => settled.abort());
      await pause(SETTLE_MS, ...(lost === undefined ? [settled.signal] : [settled.signal, lost]));
    }
    await connection.close();
  }
}

/** Ends early when one of the signals aborts. */
function pause(ms: number, ...signals: readonly AbortSignal[]): Promise<void> {
  return sleep(ms, undefined, { signal: AbortSignal.any([...signals]) }).catch(() => {});
}

/** Asks a signal only while `during` runs, so that a long life leaves no listeners behind. */
async function untilAborted(signal: AbortSignal, during: Promise<unknown>): Promise<void> {
  if (signal.aborted) return;
  let hear: () => void = () => {};
  const aborting = new Promise<void>((resolve) => {
    hear = resolve;
    signal.addEventListener('abort', hear, { once: true });
  });
  await Promise.race([aborting, during]);
  signal.removeEventListener('abort', hear);
}
