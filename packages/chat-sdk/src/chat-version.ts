import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { checkPeer } from '@botmesh/core/spi';

/** The version of the Chat SDK that is installed here, if that can be told. It is for `import` alone: no `require` finds it. */
export function chatVersion(): string | undefined {
  for (const folder of createRequire(import.meta.url).resolve.paths('chat') ?? []) {
    try {
      return (JSON.parse(readFileSync(join(folder, 'chat/package.json'), 'utf8')) as { version?: string }).version;
    } catch {
      // Not in this folder: the next one up.
    }
  }
  return undefined;
}

/** @throws ConfigError for a version outside of the peer range */
export function checkChatVersion(version: string | undefined): void {
  checkPeer('chat', version, { from: [4, 41], lastMajor: 4 });
}
