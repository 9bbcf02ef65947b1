import { ConfigError } from '@botmesh/core/spi';

const DEFAULT = 'botmesh';

/** Where one shard, or the state of chats, lies: a stream, and what its subjects begin with. */
export interface Place {
  readonly stream: string;
  readonly prefix: string;
}

/** @throws ConfigError when it cannot be part of a subject and of a stream's name */
export function checkNamespace(namespace: unknown = DEFAULT): string {
  if (typeof namespace === 'string' && /^[\w-]{1,64}$/.test(namespace)) return namespace;
  throw new ConfigError(
    'namespace: expected 1 to 64 letters, digits, underscores or dashes. NATS gives dots a meaning of their own.',
  );
}

export function placeOf(namespace: string, part: number | 'state'): Place {
  return { stream: `BOTMESH_${namespace}_${part}`, prefix: `botmesh.${namespace}.${part}` };
}
