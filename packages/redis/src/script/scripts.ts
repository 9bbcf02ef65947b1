import { createHash } from 'node:crypto';
import type { Script } from '../clients/connection.js';
import { FINISH } from './finish.js';
import { QUICK } from './quick.js';
import { RECORD } from './record.js';
import { RULES } from './rules.js';
import { START } from './start.js';
import { STEPS } from './steps.js';
import { VIEW } from './view.js';

/**
 * The keys of a shard, all in one slot, in the order in which they are passed:
 *
 * - `mesh`, hash: `#` the era and configuration; `@` the counters, and how many of the other keys there are; for each epoch `r…` its row, `b…` its last batch,
 *   how many tickets it has, and the answer, and `s…` the key of the suspect message that it was handed last
 * - `answers`, hash: epoch → the answer to its last batch, where that is long
 * - `notes`, hash: epoch → what was told to its turns
 * - `heads`, hash: key → the head of its queue
 * - `waiting`, sorted set: everything behind a head, in lexicographic order of key and seq
 * - `bodies`, hash: seq → the body of that message
 * - `ids`, hash: key and id → nothing while that message is here; until when, once it is finished
 * - `finished`, list: the ids of finished messages, in order of finishing
 * - `orphans`, sorted set: keys whose head nobody could take over yet; those of suspect messages from 2^52 on
 * - `offers`, hash: key → the epoch that was handed its head unasked and has not listed it yet
 * - `parked`, hash: seq → a parked message
 * - `paces`, sorted set: shared paces, by the time up to which their slots are taken
 *
 * Numbers are stored as doubles with the greatest byte first, which sort as the numbers do.
 */
const KEY_NAMES = [
  'mesh',
  'answers',
  'notes',
  'heads',
  'waiting',
  'bodies',
  'ids',
  'finished',
  'orphans',
  'offers',
  'parked',
  'paces',
] as const;

/** The keys of a shard, as its scripts want them. */
export function keysOf(tag: string): readonly string[] {
  return KEY_NAMES.map((name) => `${tag}:${name}`);
}

/** One script for all steps: a server that does not know it is one that has not run any. */
export function stepScript(tag: string): Script {
  // The tag makes it another script for each shard of each mesh.
  return shardScript(`-- botmesh ${tag}\n${START}${QUICK}${RECORD}${RULES}${STEPS}${FINISH}`);
}

export const viewScript: Script = shardScript(START + RECORD + VIEW);

/** Slots at least so far apart, by the server's clock: a generic cell rate. KEYS: paces. ARGV: name, cost, burst, pause. */
export const paceScript: Script = makeScript(`
local LONGEST_MS = 3600000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local name, cost, burst, pause = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local latest = now + LONGEST_MS
local untilMs = math.min(math.max(tonumber(redis.call('ZSCORE', KEYS[1], name) or 0), now), latest)
local following = untilMs
if pause > 0 then following = math.min(math.max(untilMs, now + pause + burst), latest) end
local stored = following
if pause <= 0 then stored = following + cost end
redis.call('ZADD', KEYS[1], string.format('%.17g', math.min(stored, latest)), name)
return string.format('%.17g', math.max(0, following - burst - now))
`);

/** The scripts name keys as `KEY.mesh`. */
function shardScript(text: string): Script {
  return makeScript(text.replace(/\bKEY\.(\w+)/g, (_, name) => `KEYS[${KEY_NAMES.indexOf(name) + 1}]`));
}

export function makeScript(text: string): Script {
  return { text, sha: createHash('sha1').update(text).digest('hex') };
}
