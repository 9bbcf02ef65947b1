import { createHash } from 'node:crypto';
import type { Script } from '../clients/connection.js';
import { RECORD } from './record.js';
import { RULES } from './rules.js';
import { STEPS } from './steps.js';
import { VIEW } from './view.js';

/** One script for all steps: a server that does not know it is one that has not run any. */
export function stepScript(tag: string): Script {
  // The tag makes it another script for each shard of each mesh.
  return makeScript(`-- botmesh ${JSON.stringify(tag)}\n${RECORD}${RULES}${STEPS}`);
}

export const viewScript: Script = makeScript(`${RECORD}${VIEW}`);

/** Slots at least so far apart, by the server's clock: a generic cell rate. KEYS: paces. ARGV: name, cost, burst, pause. */
export const paceScript: Script = makeScript(`
local LONGEST_MS = 3600000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, cost, burst, pause = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local latest = now + LONGEST_MS
local untilMs = math.min(math.max(tonumber(redis.call('ZSCORE', KEYS[1], name) or 0), now), latest)
local following = untilMs
if pause > 0 then following = math.max(untilMs, now + pause + burst) end
local stored = following
if pause <= 0 then stored = following + cost end
redis.call('ZADD', KEYS[1], string.format('%.17g', math.min(stored, latest)), name)
return string.format('%.17g', math.max(0, following - burst - now))
`);

/** The keys of a shard, in the order in which the scripts name them. */
export function keysOf(tag: string): readonly string[] {
  const names = 'mesh answers notes heads waiting bodies ids finished orphans offers parked paces'.split(' ');
  return names.map((name) => `${tag}:${name}`);
}

export function makeScript(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
