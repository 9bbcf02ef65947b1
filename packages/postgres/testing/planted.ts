// For the tests of this package: bugs planted into the functions of a schema, which the tests have to find.
import type { PostgresClient } from '../src/clients/client.js';
import { quoted } from '../src/quoting.js';

/** `find` stands exactly once in the function `in`, as the server has it; `@.` stands for the schema. */
export interface Patch {
  readonly in: string;
  readonly find: string;
  readonly replace: string;
}

export interface Planted {
  readonly name: string;
  readonly patches: readonly Patch[];
  /** Which tests have to find it: random lists of steps held to the reference, or the suite of stores step by step. */
  readonly foundBy: 'lists' | 'facts';
}

export const PLANTED: readonly Planted[] = [
  {
    name: 'a key is granted out of turn, to the last in line',
    patches: [{ in: 'shift', find: 'order by seq limit 1', replace: 'order by seq desc limit 1' }],
    foundBy: 'lists',
  },
  {
    name: 'a key that is held is granted once more',
    patches: [{ in: 'settle', find: 'exit when c.fence <> 0 and c.era = s.era;', replace: '' }],
    foundBy: 'lists',
  },
  {
    name: 'the fence does not rise when a message is handed on',
    patches: [{ in: 'pass_on', find: 's.last := greatest(s.last + 1, s.clock);', replace: '' }],
    foundBy: 'lists',
  },
  {
    name: 'fences go back after the server has lost its data',
    patches: [{ in: 'note_seen', find: 'if seen > s.last and', replace: 'if false and' }],
    foundBy: 'lists',
  },
  {
    name: 'a release is not compared with the ticket that holds the key',
    patches: [{ in: 'release', find: 'if c.owner <> s.me then return s; end if;', replace: '' }],
    foundBy: 'facts',
  },
  {
    name: 'who is buried stays alive',
    patches: [{ in: 'bury', find: 'delete from @.replica where mesh = s.mesh and epoch = the_epoch;', replace: '' }],
    foundBy: 'lists',
  },
  {
    name: 'the dead are never skipped',
    patches: [{ in: 'is_over', find: 'return s.me <> 0 and', replace: 'return false and' }],
    foundBy: 'facts',
  },
  {
    name: 'anybody may declare a death',
    patches: [{ in: 'is_over', find: 'and s.now - s.my_since >= s.lease', replace: '' }],
    foundBy: 'facts',
  },
  {
    name: 'messages of the dead are skipped like tickets',
    patches: [{ in: 'settle', find: 'if c.is_message then', replace: 'if false then' }],
    foundBy: 'lists',
  },
  {
    name: 'an attempt that died is not counted',
    patches: [
      { in: 'pass_on', find: 'if c.fence <> 0 then c := @.count_attempt(c, c.owner <> 0); end if;', replace: '' },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a replica is not told that its ticket is gone',
    patches: [
      {
        in: 'compare_view',
        find: "else\n      lost := lost || ' ' || v.at;\n    end if;\n  end loop;",
        replace: 'end if;\n  end loop;',
      },
    ],
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat does not renew the lease',
    patches: [{ in: 'step_beat', find: 'adopts = can_adopt, beat = s.now,', replace: 'adopts = can_adopt,' }],
    foundBy: 'lists',
  },
  {
    name: 'a batch that comes late, or again, is taken for a new one',
    patches: [{ in: 'step_apply', find: 'if number <= me.batch then', replace: 'if false then' }],
    foundBy: 'lists',
  },
  {
    name: 'a heartbeat that comes late is taken for a new one',
    patches: [{ in: 'step_beat', find: 'and number <= me.beat_number then', replace: 'and false then' }],
    foundBy: 'lists',
  },
  {
    name: 'another server than before is not noticed',
    patches: [{ in: 'begin_step', find: 'if old_run is distinct from s.run then', replace: 'if false then' }],
    foundBy: 'facts',
  },
  {
    name: 'a quarantine ends at once',
    patches: [{ in: 'step_beat', find: 'and watched_ms >= s.quarantine then', replace: 'then' }],
    foundBy: 'facts',
  },
];

/** Runs `body` while the functions of `schema` have the bug in them, and puts back what was there. */
export async function withPlanted<T>(
  client: PostgresClient,
  schema: string,
  { patches }: Planted,
  body: () => Promise<T>,
): Promise<T> {
  const before: string[] = [];
  try {
    for (const patch of patches) {
      const text = await definitionOf(client, schema, patch.in);
      before.push(text);
      await client.call(patched(text, patch, quoted(schema)), []);
    }
    return await body();
  } finally {
    for (const text of before.reverse()) await client.call(text, []);
  }
}

async function definitionOf(client: PostgresClient, schema: string, name: string): Promise<string> {
  const text = await client.call(
    `select pg_get_functiondef(p.oid) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where n.nspname = $1 and p.proname = $2`,
    [schema, name],
  );
  if (text === null) throw new Error(`no function ${name}`);
  return text;
}

function patched(text: string, { in: name, find, replace }: Patch, schema: string): string {
  const parts = text.split(find.replaceAll('@.', `${schema}.`));
  if (parts.length !== 2) throw new Error(`${name}: expected one place, found ${parts.length - 1}: ${find}`);
  return parts.join(replace.replaceAll('@.', `${schema}.`));
}
