import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { ConfigError } from '../errors.js';

/** From `major.minor` up to the end of the last major. */
export interface PeerRange {
  readonly from: readonly [major: number, minor: number];
  readonly lastMajor: number;
}

/**
 * The version of package `name` as a file at `near` finds it, also of one for `import` alone. Undefined where that cannot be
 * told, as in a bundle.
 */
export function versionOf(name: string, near: string): string | undefined {
  for (const folder of createRequire(near).resolve.paths(name) ?? []) {
    const found = manifestIn(join(folder, name));
    if (found !== undefined) return found.version;
  }
  return undefined;
}

function manifestIn(folder: string): { version?: string } | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { version?: string };
  } catch {
    return undefined;
  }
}

/** @throws ConfigError naming the package, the version found and those that are known to work */
export function checkPeer(name: string, version: string | undefined, range: PeerRange): void {
  if (version === undefined) return;
  const [major = Number.NaN, minor = Number.NaN] = version.split('.', 2).map(Number);
  const [firstMajor, firstMinor] = range.from;
  const isOld = major < firstMajor || (major === firstMajor && minor < firstMinor);
  if (!isOld && major <= range.lastMajor) return;
  const upTo = range.lastMajor === firstMajor ? '' : ` to ${range.lastMajor}.x`;
  throw new ConfigError(
    `${name} ${version} is installed; this binding works with ${firstMajor}.${firstMinor} and later${upTo}, below ${range.lastMajor + 1}.0. Install one of these.`,
  );
}
