// For the tests of this package: bugs planted into its scripts, which the tests have to find.
import { createHash } from 'node:crypto';
import type { Connection, Script } from '../src/clients/connection.js';

/** A bug: `find` stands exactly once in the script of the steps, or in that which saves state. */
export interface Planted {
  readonly name: string;
  readonly patches: readonly { readonly find: string; readonly replace: string }[];
  /** Which tests have to find it: random lists of steps held to the reference, the suite of stores step by step, or that of state stores. */
  readonly foundBy: 'lists' | 'facts' | 'state';
}

const OVER = 'return S.me ~= nil and now - row.beat > S.leaseMs and R.isWitness(S.me)';

export const PLANTED: readonly Planted[] = [
  {
    name: 'a ticket is drawn in two steps: what was drawn is not kept',
    patches: [{ find: "pack('>dddd', last,", replace: "pack('>dddd', known[2] and unpackAs('>d', known[2]) or 0," }],
    foundBy: 'lists',
  },
  {
    name: 'a key is granted out of turn, to the second in line',
    patches: [
      {
        find: "'LIMIT', 0, 2)\n        behind.at",
        replace:
          "'LIMIT', 0, 2)\n        if behind[2] then behind[1], behind[2] = behind[2], behind[1] end\n        behind.at",
      },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a key is granted although it is held',
    patches: [
      { find: '        if not raw then\n          raws[key]', replace: '        if true then\n          raws[key]' },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a state is written whatever its fence',
    patches: [{ find: 'tonumber(newest) > tonumber(ARGV[1])', replace: 'false' }],
    foundBy: 'state',
  },
  {
    name: 'the fence does not rise when a dead holder is skipped',
    patches: [{ find: 'entry.fence = R.stamp()\n  entry.era', replace: 'entry.fence = S.last\n  entry.era' }],
    foundBy: 'lists',
  },
  {
    name: 'fences go back after the server has lost its data',
    patches: [{ find: 'if seen > S.last and seen <= 6755399441055744 then S.last = seen end', replace: '' }],
    foundBy: 'lists',
  },
  {
    name: 'a release is not compared with the ticket that holds the key',
    patches: [{ find: 'or headOwner ~= owner or seq ~= tonumber(ARGV[nextArg]) then', replace: 'then' }],
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat revives a replica that was buried',
    patches: [
      {
        find: '  S.rows[row.epoch] = false\n  S.changedRows[row.epoch] = true\n  if row.total',
        replace: '  if row.total',
      },
    ],
    foundBy: 'lists',
  },
  {
    name: 'the dead are never skipped',
    patches: [{ find: OVER, replace: 'return false' }],
    foundBy: 'facts',
  },
  {
    name: 'a holder is buried while its lease still runs',
    patches: [{ find: OVER, replace: 'return S.me ~= nil and now - row.beat > S.leaseMs / 2 and R.isWitness(S.me)' }],
    foundBy: 'facts',
  },
  {
    name: 'a replica is not told that its ticket is gone',
    patches: [{ find: 'if entry == nil then\n      lost[#lost + 1] = index - 1', replace: 'if entry == nil then' }],
    foundBy: 'lists',
  },
  {
    name: "leases are judged by a clock that is not the server's",
    patches: [
      {
        find: 'local now = time[1] * 1000 + floor(time[2] / 1000)\n-- Stamps',
        replace: 'local now = 1750000000000\n-- Stamps',
      },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat does not renew the lease',
    patches: [{ find: '  R.renew(S.me)\n  S.me.adopts', replace: '  S.me.adopts' }],
    foundBy: 'lists',
  },
  {
    name: 'a batch that comes late, or again, is taken for a new one',
    patches: [
      { find: 'if number <= me.batch then', replace: 'if false then' },
      { find: 'isQuick = tonumber(ARGV[7]) > before\n      and', replace: 'isQuick =' },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat that comes late is taken for a new one',
    patches: [{ find: 'if number <= S.me.beatNumber then', replace: 'if false then' }],
    foundBy: 'lists',
  },
  {
    name: 'another server than before is not noticed',
    patches: [
      { find: 'if run == storedRun and not isPartLost then return end', replace: 'do return end' },
      { find: 'if run == storedRun and not isPartLost and quarantineMs', replace: 'if quarantineMs' },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a quarantine ends at once',
    patches: [{ find: 'and tonumber(ARGV[9]) >= S.quarantineMs and', replace: 'and' }],
    foundBy: 'lists',
  },
];

/** `text` with the bug in it; undefined where it does not belong. */
function planted({ patches }: Planted, text: string): string | undefined {
  let result = text;
  for (const { find, replace } of patches) {
    const parts = result.split(find);
    if (parts.length === 1) return undefined;
    if (parts.length > 2) throw new Error(`expected one place, found ${parts.length - 1}: ${find}`);
    result = parts.join(replace);
  }
  return result;
}

/** `connection`, with the bug in each script that it belongs to. `wasPlanted` tells whether there was one. */
export function planting(connection: Connection, bug: Planted): { connection: Connection; wasPlanted: () => boolean } {
  const scripts = new Map<string, Script>();
  let was = false;
  const changed = (script: Script): Script => {
    const known = scripts.get(script.sha);
    if (known !== undefined) return known;
    const text = planted(bug, script.text);
    if (text !== undefined) was = true;
    const sha = createHash('sha1')
      .update(text ?? script.text)
      .digest('hex');
    const made = { text: text ?? script.text, sha };
    scripts.set(script.sha, made);
    return made;
  };
  return {
    connection: { ...connection, evalsha: (script, keys, args) => connection.evalsha(changed(script), keys, args) },
    wasPlanted: () => was,
  };
}
