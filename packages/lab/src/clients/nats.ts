import { NatsCoordinator } from '@botmesh/nats';
import type { OpenCoordinator } from './client.js';

export interface NatsConnect {
  readonly urls: readonly string[];
}

/** It learns of no other servers: those of a cluster tell of each other, and a replica would go round its proxies. */
export const open: OpenCoordinator<NatsConnect> = async ({ urls }, options) =>
  new NatsCoordinator({ ...options, url: urls, connection: { ignoreClusterUpdates: true } });
