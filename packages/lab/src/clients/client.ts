import type { Coordinator, Inbox } from '@botmesh/core/spi';

/** Opens the coordinator of one replica, which is not started. `connect` says how it reaches its server, as JSON. */
export type OpenCoordinator<C> = (
  connect: C,
  options: Readonly<Record<string, unknown>>,
) => Promise<Coordinator & Inbox>;
