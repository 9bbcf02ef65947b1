import { checkPeer, versionOf } from '@botmesh/core/spi';

/** The version of the Chat SDK that is installed here, if that can be told. */
export function chatVersion(): string | undefined {
  return versionOf('chat', import.meta.url);
}

/** @throws ConfigError for a version outside of the peer range */
export function checkChatVersion(version: string | undefined): void {
  checkPeer('chat', version, { from: [4, 41], lastMajor: 4 });
}
