import type { Bot } from '@botmesh/core';
import { type BindingOptions, bind, ConfigError, checkBinding, checkPeer, versionOf } from '@botmesh/core/spi';
import type { Keying } from './arrival.js';
import { type BoltApp, insideOf, versionOfApp } from './bolt.js';
import { guardClients } from './guard.js';
import { ACCOUNT, Line } from './Line.js';
import { process, type Stored } from './turn.js';

export interface MeshOptions extends BindingOptions {
  /**
   * What must be serial. `thread`, the default: each thread with the message that began it, and in direct messages what
   * stands outside of threads; `channel`: each channel as a whole; or a function of Slack's body, for one key, several, or
   * undefined for what waits for nothing.
   */
  keys?: Keying;
  /**
   * Commands, action ids and callback ids whose handlers answer Slack by `ack(…)`, or need the trigger within its three
   * seconds. They run as they come, on the replica that got them: outside of their chat's queue, and not again if that dies.
   * Menus that ask for options, and dialogs, always do.
   */
  atOnce?: readonly string[];
}

/**
 * Runs a Bolt app on a mesh. Call it once, before `app.start()`, which then joins the mesh and connects, as `app.stop()`
 * leaves it. What Slack delivers is taken in before it is acknowledged, and the app processes it in the turn of its chat, on
 * whichever replica, at least once. In Socket Mode one replica has the socket.
 *
 * Gives the replica: a Bot to stop by signals, to ask for what is parked, and for probes.
 *
 * @throws ConfigError for options that cannot work, a version of Bolt that it does not know, an app that was started or is
 * bound already
 */
export function mesh(app: BoltApp, options: MeshOptions): Bot {
  checkBinding('mesh()', options, { keys: true, atOnce: true });
  const { keys = 'thread', atOnce = [], ...shared } = options;
  checkOwn(keys, atOnce);
  const inside = insideOf(app);
  const version = versionOfApp(app) ?? versionOf('@slack/bolt', import.meta.url);
  checkPeer('@slack/bolt', version, { from: [4, 0], lastMajor: 5 });
  const line = new Line(app, inside.receiver, { keys, atOnce, log: shared.log ?? ((text) => console.warn(text)) });
  const replica = bind({
    framework: 'Bolt',
    bot: app,
    options: shared,
    provider: line.provider,
    account: () => ACCOUNT,
    handle: (stored, ctx) => process(line.processEvent, stored as Stored, ctx),
  });
  line.take(
    () => replica.start(),
    () => replica.stop(),
  );
  guardClients(app, inside);
  return replica;
}

function checkOwn(keys: unknown, atOnce: unknown): void {
  if (keys !== 'thread' && keys !== 'channel' && typeof keys !== 'function') {
    throw new ConfigError("mesh(): keys is neither 'thread' nor 'channel' nor a function. Pass one of these.");
  }
  if (!Array.isArray(atOnce) || atOnce.some((name) => typeof name !== 'string')) {
    throw new ConfigError('mesh(): atOnce is no list of names. Pass commands, action ids or callback ids.');
  }
}
