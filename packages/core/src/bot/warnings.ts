import { MemoryCoordinator } from '../coordination/MemoryCoordinator.js';
import { isDurable } from '../pipeline/ingress.js';
import type { BotOptions, BringsState } from './options.js';
import { storeIn } from './state-of.js';

/** What an operator should know about a setup before it runs, a line each. */
export function warnings(options: BotOptions): string[] {
  const { provider, coordinator } = options;
  const isInMemory = coordinator === undefined || coordinator instanceof MemoryCoordinator;
  if (isInMemory && provider.webhook !== undefined) {
    return [
      `botmesh: WARNING: ${provider.name} receives by webhook, but the coordinator is in this process's memory. Behind ` +
        'several replicas the messages of one chat are handled at the same time and out of order, redeliveries are ' +
        'handled twice, state differs from replica to replica, and messages are lost with their process. Pass a shared ' +
        'coordinator before you run more than one: RedisCoordinator of @botmesh/redis, SqliteCoordinator of ' +
        '@botmesh/sqlite for several processes of one host, or one of your own (docs/write-a-backend.md).',
    ];
  }
  if (coordinator !== undefined && isInMemory && provider.exclusive === 'receiving') {
    return [
      `botmesh: WARNING: only one replica may receive from ${provider.name}, but the coordinator is in this process's ` +
        'memory. Several replicas then take the connection from each other, and messages are lost with their process. ' +
        'Pass a shared coordinator before you run more than one: RedisCoordinator of @botmesh/redis, SqliteCoordinator ' +
        'of @botmesh/sqlite for several processes of one host, or one of your own (docs/write-a-backend.md).',
    ];
  }
  if (coordinator === undefined) {
    return [
      'botmesh: no coordinator, so this bot runs alone: messages and state are kept in this process and end with it. ' +
        'Pass { coordinator } to run several replicas.',
    ];
  }
  if (isInMemory) return [];
  const lines = [];
  if (!isDurable(coordinator)) {
    lines.push(
      'botmesh: this coordinator keeps no messages (it has no accept), so each is kept in the process that took it in, ' +
        'and is lost if that dies before it is handled.',
    );
  }
  if (storeIn(options) === undefined && (coordinator as Partial<BringsState>).stateStore === undefined) {
    lines.push(
      'botmesh: no state store, so ctx.state, flows and what schedules have run are kept in this process: a chat that ' +
        'reaches another replica starts anew there, and so does a schedule. Pass { state }.',
    );
  }
  return lines;
}
