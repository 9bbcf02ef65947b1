/** One step under way: what it begins with, what may be decided in it, and how it ends. See step.ts of @botmesh/core. */
import type { SqlFunction } from './functions.js';
import { newest } from './newest.js';

export const STEP_TYPE = `
create type @.step as (
  mesh integer,
  mesh_at tid,
  -- Milliseconds of the leases; the same for stamps and ids, where the clock cannot be right the latest that is known; the
  -- least that a stamp may be.
  now bigint,
  wall double precision,
  clock bigint,
  run text,
  era bigint,
  quarantine double precision,
  format double precision,
  lease double precision,
  shards double precision,
  last bigint,
  count bigint,
  forgotten bigint,
  swept text,
  -- The caller, once it was found that it may act; 0 before.
  me bigint,
  my_beat bigint,
  my_since bigint,
  my_adopts boolean,
  batch bigint,
  -- Greater fences were given in this step.
  stamp_before bigint,
  -- The ticket that is being queued, whose grant is no news; the one that is passed on, which is not for the caller.
  fresh bigint,
  passing bigint,
  -- What an operation came to; 0 for nothing.
  taken_seq bigint,
  taken_fence bigint,
  -- Pieces of JSON.
  grants text[],
  adopted text[],
  adopted_seqs bigint[],
  parked text[],
  pushes text[]
);
`;

export const STEP_FUNCTIONS: readonly SqlFunction[] = [
  {
    signature: '@.set_up(sync text, lock_ms text) returns text',
    body: `
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'botmesh: this transaction is %, and a step needs read committed', current_setting('transaction_isolation')
      using errcode = 'invalid_transaction_state', hint = 'Set default_transaction_isolation of this role to ''read committed''.';
  end if;
  return set_config('lock_timeout', lock_ms, true)
    || case when sync <> '' then set_config('synchronous_commit', sync, true) else '' end;
end`,
  },
  {
    // Waits for its turn, and finds out what time it is only then: so times rise from step to step.
    signature: '@.begin_step(the_namespace text, the_shard integer, sync text, lock_ms text) returns @.step',
    body: `
declare
  s @.step;
  old_run text;
  setting text;
begin
  -- Assigned, not performed: that is no statement.
  setting := @.set_up(sync, lock_ms);
  loop
    perform from @.mesh where namespace = the_namespace and shard between the_shard and the_shard
      order by shard desc limit 1 for update;
    exit when found;
    insert into @.mesh (namespace, shard) values (the_namespace, the_shard) on conflict do nothing;
  end loop;
  -- Beyond the year 2112 a clock counts for nothing: stamps have to stay safe integers.
  select m.id, m.at, t.now, case when t.is_sane then t.now else m.last / 1000.0 end,
      case when t.is_sane then t.now * 1000 else 0 end, @.run(), m.era, m.quarantine, m.format, m.lease, m.shards, m.last,
      m.count, m.forgotten, m.swept, 0, 0, 0, false, 0, m.last, 0, 0 into s
    from ${newest('mesh', 'namespace = the_namespace', 'shard', 'the_shard')} m
      cross join (select u.ms as now, abs(u.ms) <= 4503599627370 as is_sane from (select @.now_us() / 1000 as ms offset 0) u) t;
  select run into old_run from @.mesh where ctid = s.mesh_at;
  if old_run is distinct from s.run then s := @.start_era(s, s.lease); end if;
  return s;
end`,
  },
  {
    // Copied to another server, or put back from a dump, the row is another one: the transaction that wrote it tells. A copy of
    // the whole database in the same server has that, too, but not its number. Files of a server that had stopped in order,
    // put back later, have all three: the start of the server tells.
    signature: '@.run() returns text',
    body: `
declare
  found_run text;
begin
  loop
    select s.id || ' ' || s.xmin::text || ' ' || d.oid || ' ' || extract(epoch from pg_postmaster_start_time()) into found_run
      from @.server s, pg_catalog.pg_database d where d.datname = current_database();
    exit when found_run is not null;
    insert into @.server (id) values (gen_random_uuid()::text) on conflict do nothing;
  end loop;
  return found_run;
end`,
  },
  {
    // R9: a server that may have lost writes starts a new era, in which nothing is granted for a while.
    signature: '@.start_era(s @.step, lease_ms double precision) returns @.step',
    body: `
begin
  s.last := greatest(s.last + 1, s.clock);
  s.era := ('x' || left(encode(sha256(convert_to(s.run || ' ' || s.last, 'UTF8')), 'hex'), 13))::bit(52)::bigint;
  if s.era = 0 then s.era := 1; end if;
  s.quarantine := @.quarantine_of(lease_ms);
  -- While the clock stands behind the last stamp, stamps that were lost would come again.
  if lease_ms <> 0 then s.last := s.last + floor(s.quarantine * 100)::bigint; end if;
  update @.replica set since = s.now where mesh = s.mesh;
  return s;
end`,
  },
  {
    signature: '@.quarantine_of(lease_ms double precision) returns double precision',
    body: `
begin
  return case when lease_ms = 0 then 'infinity'::double precision else 2 * lease_ms / 3 + lease_ms / 24 end;
end`,
  },
  {
    signature: '@.note_seen(s @.step, seen bigint) returns @.step',
    body: `
begin
  -- No stamp that was ever given is greater than that.
  if seen > s.last and seen <= 6755399441055744 then s.last := seen; end if;
  return s;
end`,
  },
  {
    signature: '@.finish_step(s @.step) returns void',
    body: `
begin
  update @.mesh set run = s.run, era = s.era, quarantine = s.quarantine, format = s.format, lease = s.lease,
    shards = s.shards, last = s.last, count = s.count, forgotten = s.forgotten, swept = s.swept
  where ctid = s.mesh_at;
end`,
  },
  {
    // R2: only a replica whose own heartbeats are unbroken for a whole lease may declare a death.
    signature: '@.is_over(s @.step, beat bigint) returns boolean',
    body: `
begin
  return s.me <> 0 and s.now - beat > s.lease
    and s.now - s.my_beat between 0 and s.lease / 3 and s.now - s.my_since >= s.lease;
end`,
  },
  {
    // The pushes of a step, then its answer.
    signature: '@.reply(s @.step, answer text) returns text',
    body: `
begin
  return case when s.pushes is null then '' else '[' || array_to_string(s.pushes, ',') || ']' end || e'\\n' || answer;
end`,
  },
  {
    signature: '@.news(s @.step) returns text',
    body: `
begin
  if s.grants is null and s.adopted is null and s.parked is null then return ''; end if;
  return '[[' || coalesce(array_to_string(s.grants, ','), '') || '],[' || coalesce(array_to_string(s.adopted, ','), '')
    || '],[' || coalesce(array_to_string(s.parked, ','), '') || ']]';
end`,
  },
  {
    // R3: the caller's row if it may act; otherwise why not.
    signature: '@.admit(inout s @.step, the_epoch bigint, the_instance text, out refusal text, out me @.replica)',
    body: `
begin
  select * into me from ${newest('replica', 'mesh = s.mesh', 'epoch', 'the_epoch')} r;
  if not found or me.instance <> the_instance then
    refusal := 'dead';
  elsif me.replaced then
    refusal := 'replaced';
  else
    s.me := me.epoch;
    s.my_beat := me.beat;
    s.my_since := me.since;
    s.my_adopts := me.adopts;
  end if;
end`,
  },
];
