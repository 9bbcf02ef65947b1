import { ConfigError } from '@botmesh/core/spi';
import { Commands, lengthOf } from './Commands.js';
import type { Connection, ConnectionOptions, Script } from './connection.js';
import { LongCommands } from './LongCommands.js';
import { findLibrary, type Library } from './libraries.js';
import type { Dialer } from './link.js';
import { dialerOf } from './recognise.js';
import { replyCode } from './replies.js';
import { Subscriptions } from './Subscriptions.js';
import { explain } from './unfit.js';
import { parseUrl } from './url.js';

/** Commands that are longer, in UTF-16 units, have a link of their own. */
const LONG = 64 * 1024;

/**
 * Refuses what cannot work, without connecting: for constructors.
 *
 * @throws ConfigError naming the option, what was given and what is expected
 */
export function checkConnectionOptions(options: ConnectionOptions): void {
  const { client, cluster, tls, url } = options;
  if (cluster !== undefined && typeof cluster !== 'boolean') {
    throw new ConfigError(`cluster is ${shown(cluster)}. Expected true or false.`);
  }
  if (tls !== undefined && (typeof tls !== 'object' || tls === null)) {
    throw new ConfigError(`tls is ${shown(tls)}. Expected an object of what tls.connect takes, such as { ca }.`);
  }
  if ((url === undefined) === (client === undefined)) {
    const given = url === undefined ? 'neither url nor client is given' : 'both url and client are given';
    throw new ConfigError(`${given}. Pass exactly one: { url: 'redis://…' }, or { client } with a client of your own.`);
  }
  if (client !== undefined) {
    dialerOf(client, options);
    if (cluster === undefined && tls === undefined) return;
    throw new ConfigError('cluster and tls go with url. A client that is passed in has its own settings.');
  }
  const { database, isTls } = parseUrl(url);
  if (tls !== undefined && !isTls) throw new ConfigError('tls is given, and url is not rediss://. Write rediss://.');
  if (cluster === true && database !== 0) {
    throw new ConfigError(`url names database ${database}, and cluster is true. A Cluster has database 0 only.`);
  }
}

/** Kinds of values only: what was given may be a secret in the wrong place. */
function shown(value: unknown): string {
  return value === null ? 'null' : `a ${typeof value}`;
}

/**
 * Connects, and keeps connected until closed. Does not check whether the server is fit: see `checkServer`.
 *
 * @throws ConfigError when the options cannot work, no library is installed, or the server refuses us for good
 * @throws CoordinationUnavailableError when there is no connection within `connectTimeoutMs`; nothing is left open then
 */
export async function openConnection(options: ConnectionOptions, library?: Library): Promise<Connection> {
  checkConnectionOptions(options);
  const dialer = await makeDialer(options, library);
  const listeners = new Set<() => void>();
  const onReconnect = () => {
    for (const listener of [...listeners]) listener();
  };
  const commands = new Commands(dialer, options, onReconnect);
  try {
    await commands.open();
  } catch (cause) {
    throw explain(dialer.where, cause);
  }
  const long = new LongCommands(async () => {
    const others = new Commands(dialer, options, () => {});
    await others.open();
    return others;
  });
  const commandsFor = (args: readonly string[]) => (lengthOf(args) > LONG ? long : commands);
  const subscriptions = new Subscriptions({
    settings: options,
    where: dialer.where,
    currentLink: () => commands.currentLink(),
    onReconnect,
  });
  return {
    isCluster: dialer.isCluster,
    where: dialer.where,
    evalsha: (script, keys, args) => {
      const texts = args.map(String);
      return runScript(commandsFor(texts), script, keys, texts);
    },
    command: (args, key) => commandsFor(args).send(args, key),
    subscribe: (channel, onMessage) => subscriptions.subscribe(channel, onMessage),
    onReconnect: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: async () => {
      subscriptions.close();
      commands.close();
      long.close();
    },
  };
}

async function makeDialer(options: ConnectionOptions, library: Library | undefined): Promise<Dialer> {
  const { client, cluster, tls, url } = options;
  if (client !== undefined) return dialerOf(client, options);
  const place = { ...parseUrl(url), isCluster: cluster === true, tls };
  return (library ?? (await findLibrary()))(place, options);
}

/** A server forgets scripts when it restarts, fails over, or is told to. */
async function runScript(
  commands: Pick<Commands, 'send'>,
  { sha, text }: Script,
  keys: readonly string[],
  args: readonly string[],
): Promise<unknown> {
  const rest = [String(keys.length), ...keys, ...args];
  try {
    return await commands.send(['EVALSHA', sha, ...rest], keys[0]);
  } catch (error) {
    if (replyCode(error) !== 'NOSCRIPT') throw error;
    return commands.send(['EVAL', text, ...rest], keys[0]);
  }
}
