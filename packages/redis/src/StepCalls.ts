import type { Connection, Script } from './clients/connection.js';
import { replyCode } from './clients/replies.js';
import type { Args } from './requests.js';
import { makeScript } from './script/scripts.js';

const MAY_ASK = makeScript(
  `local answer = redis.pcall('INFO', 'replication') return type(answer) == 'string' and 1 or 0`,
);

/** Calls of the script of one shard. What was given to `warn` is told once. */
export class StepCalls {
  readonly #script: Script;
  readonly #keys: readonly string[];
  readonly #warn: (message: string) => void;
  readonly #makeRun: () => string;
  /** Whether the script may ask the server for its identity. */
  #mayAsk = true;

  constructor(options: {
    script: Script;
    keys: readonly string[];
    makeRun: () => string;
    warn: (message: string) => void;
  }) {
    this.#script = options.script;
    this.#keys = options.keys;
    this.#makeRun = options.makeRun;
    this.#warn = options.warn;
  }

  /** @throws whatever the connection does, and errors of the script */
  async call(connection: Connection, step: string, args: Args): Promise<unknown> {
    const publish = connection.isCluster ? 'SPUBLISH' : 'PUBLISH';
    const rest: Args = [publish, ...args];
    if (!this.#mayAsk) return this.#callUnasked(connection, step, rest);
    try {
      return await connection.evalsha(this.#script, this.#keys, [step, '', ...rest]);
    } catch (error) {
      if (!mayBeRights(error) || (await this.#canAsk(connection))) throw error;
    }
    this.#mayAsk = false;
    this.#warn(
      `${connection.where} does not let scripts ask INFO: a server that restarted or failed over is told by its having forgotten this script. Let the user run INFO.`,
    );
    return this.#callUnasked(connection, step, rest);
  }

  async #canAsk(connection: Connection): Promise<boolean> {
    return (await connection.evalsha(MAY_ASK, this.#keys.slice(0, 1), [])) === 1;
  }

  /**
   * A server keeps the scripts it has run for as long as it lives, and gives them to nobody. One that does not know this
   * one, which no other mesh has, is taken for another server than before: that is safe, though it may be wrong.
   */
  async #callUnasked(connection: Connection, step: string, args: Args): Promise<unknown> {
    const { sha, text } = this.#script;
    const call = (command: string, script: string, mark: string): Promise<unknown> => {
      const all = [step, `${mark}${this.#makeRun()}`, ...args].map(String);
      return connection.command([command, script, String(this.#keys.length), ...this.#keys, ...all], this.#keys[0]);
    };
    try {
      return await call('EVALSHA', sha, '=');
    } catch (error) {
      if (replyCode(error) !== 'NOSCRIPT') throw error;
      return call('EVAL', text, '!');
    }
  }
}

function mayBeRights(error: unknown): boolean {
  return (
    error instanceof Error &&
    /NOPERM|no permissions|can't run this command|[Uu]nknown (?:Redis )?command/.test(error.message)
  );
}
