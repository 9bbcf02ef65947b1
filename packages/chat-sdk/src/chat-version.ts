import { readFileSync } from 'node:fs';
import { ConfigError } from '@botmesh/core/spi';

const OLDEST_MINOR = 41;

/** The version of the Chat SDK that is installed here, if that can be told. */
export function chatVersion(): string | undefined {
  try {
    const manifest = new URL('../package.json', import.meta.resolve('chat'));
    return (JSON.parse(readFileSync(manifest, 'utf8')) as { version?: string }).version;
  } catch {
    return undefined;
  }
}

/** @throws ConfigError for a version outside of the peer range */
export function checkChatVersion(version: string | undefined): void {
  if (version === undefined) return;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major === 4 && minor >= OLDEST_MINOR) return;
  throw new ConfigError(
    `meshChat(): chat ${version} is installed, and this package knows ^4.${OLDEST_MINOR}. Install chat@^4.${OLDEST_MINOR}.`,
  );
}
