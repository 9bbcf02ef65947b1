import { ConfigError } from '@botmesh/core/spi';

const DEFAULT = 'botmesh';

/** @throws ConfigError when it could end a key's hash tag too early, or is no text */
export function checkNamespace(namespace: unknown = DEFAULT): string {
  if (typeof namespace === 'string' && /^[\w.-]{1,64}$/.test(namespace)) return namespace;
  throw new ConfigError('namespace: expected 1 to 64 letters, digits, dots, underscores or dashes.');
}

/** What all keys of a shard begin with: it brings them into one slot of a Cluster. */
export function tagOf(namespace: string, shard: number): string {
  return `{${namespace}:${shard}}`;
}
