import { ConfigError } from '@botmesh/core/spi';

const DEFAULT = 'botmesh';

/** The file of a namespace: `path` itself, or one beside it. */
export function fileOf(path: string, namespace: string = DEFAULT): string {
  if (namespace === DEFAULT) return path;
  if (typeof namespace === 'string' && /^[\w.-]{1,64}$/.test(namespace)) return `${path}-${namespace}`;
  throw new ConfigError('namespace: expected 1 to 64 letters, digits, dots, underscores or dashes.');
}
