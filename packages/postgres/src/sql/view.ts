/** What reads, and what is not a step: it takes no turn. */
import type { SqlFunction } from './functions.js';

export const VIEWS: readonly SqlFunction[] = [
  {
    // The messages behind the head of a key, in order.
    signature:
      '@.see_waiting(the_namespace text, the_shard integer, the_key text, the_seq bigint, most integer) returns text',
    isStep: true,
    isStable: true,
    body: `
begin
  return (
    select json_agg(json_build_array(e.seq, coalesce(e.long_id, e.id), e.body, e.attempt) order by e.seq)
    from @.mesh m join @.chat c on c.mesh = m.id and c.key = the_key and c.seq = the_seq cross join lateral (
      select * from @.entry t where t.mesh = c.mesh and t.key = c.key and t.seq > c.seq and t.is_message
      order by t.seq limit most
    ) e
    where m.namespace = the_namespace and m.shard = the_shard and the_seq <> 0
  );
end`,
  },
  {
    // Which of its tickets that wait a replica holds by now; null in their place where it was offered messages.
    signature: `@.see_granted(the_namespace text, the_shard integer, the_epoch bigint, keys text[], seqs bigint[])
  returns text`,
    isStep: true,
    isStable: true,
    body: `
begin
  return (
    select json_build_array(m.era,
      (select coalesce(json_agg(json_build_array(c.key, c.seq, c.fence)), '[]') from unnest(keys, seqs) u(key, seq)
        cross join lateral (select * from @.chat t where t.mesh = m.id and t.key = u.key and t.seq = u.seq offset 0) c
        where c.owner = the_epoch and c.fence <> 0 and c.era = m.era),
      (exists (select from @.chat t where t.mesh = m.id and t.offered and t.owner = the_epoch)
        or exists (select from @.note n where n.mesh = m.id and n.epoch = the_epoch))::int)
    from @.mesh m where m.namespace = the_namespace and m.shard = the_shard
  );
end`,
  },
  {
    signature: '@.inspect(the_namespace text, the_shard integer) returns text',
    isStep: true,
    isStable: true,
    body: `
declare
  m @.mesh;
  now_ms bigint := @.now_us() / 1000;
begin
  select * into m from @.mesh where namespace = the_namespace and shard = the_shard;
  if not found then return null; end if;
  return json_build_object(
    'config', case when m.lease <> 0 then json_build_object('format', m.format, 'leaseMs', m.lease, 'shards', m.shards) end,
    'era', m.era, 'quarantined', m.quarantine <> 0,
    'replicas', (select coalesce(json_agg(json_build_object('replicaId', replica_id, 'epoch', epoch,
        'beatAgeMs', now_ms - beat, 'replaced', replaced, 'tickets', total) order by epoch), '[]')
      from @.replica where mesh = m.id),
    'queues', (select coalesce(json_agg(json_build_array(c.key, c.seq, c.owner, c.fence,
        (select count(*) from @.entry e where e.mesh = m.id and e.key = c.key and e.seq > c.seq)) order by c.seq), '[]')
      from @.chat c where c.mesh = m.id and c.seq <> 0),
    'parked', (select coalesce(json_agg(json_build_array(key, seq, coalesce(long_id, id), body, attempts, error) order by seq), '[]')
      from @.parked where mesh = m.id),
    'remembered', (select count(*) from @.done where mesh = m.id),
    'paces', (select count(*) from @.pace where mesh = m.id));
end`,
  },
  {
    // A generic cell rate: slots so far apart, by the clock of the stamps.
    signature: `@.pace(the_namespace text, the_shard integer, sync text, lock_ms text, the_name text,
  cost_ms double precision, burst_ms double precision, pause_ms double precision) returns text`,
    isStep: true,
    body: `
declare
  m @.mesh;
  wall double precision;
  latest double precision;
  taken_until double precision;
  following double precision;
begin
  perform set_config('lock_timeout', lock_ms, true);
  if sync <> '' then perform set_config('synchronous_commit', sync, true); end if;
  select * into m from @.mesh where namespace = the_namespace and shard = the_shard;
  if not found then
    insert into @.mesh (namespace, shard) values (the_namespace, the_shard) on conflict do nothing;
    select * into strict m from @.mesh where namespace = the_namespace and shard = the_shard;
  end if;
  loop
    select until into taken_until from @.pace where mesh = m.id and name = the_name for update;
    exit when found;
    insert into @.pace (mesh, name, until) values (m.id, the_name, 0) on conflict do nothing;
  end loop;
  wall := @.now_us() / 1000;
  if abs(wall) > 4503599627370 then wall := m.last / 1000.0; end if;
  latest := wall + 3600000;
  taken_until := least(greatest(taken_until, wall), latest);
  following := case when pause_ms > 0 then least(greatest(taken_until, wall + pause_ms + burst_ms), latest) else taken_until end;
  update @.pace set until = least(case when pause_ms > 0 then following else following + cost_ms end, latest)
    where mesh = m.id and name = the_name;
  return greatest(0, following - burst_ms - wall)::text;
end`,
  },
  {
    // What stands for a key that is too long for an index.
    signature: '@.note_long(the_namespace text, the_shard integer, shorts text[], long_keys text[]) returns text',
    isStep: true,
    body: `
begin
  insert into @.mesh (namespace, shard) values (the_namespace, the_shard) on conflict do nothing;
  insert into @.long_key (mesh, short, key, used)
    select m.id, u.short, u.key, @.now_us() from unnest(shorts, long_keys) u(short, key) cross join @.mesh m
      where m.namespace = the_namespace and m.shard = the_shard order by u.short
    on conflict (mesh, short) do update set used = excluded.used;
  -- Those that nothing was heard of for a day, and that stand for nothing.
  delete from @.long_key l using @.mesh m
    where m.namespace = the_namespace and m.shard = the_shard and l.mesh = m.id
      and l.used < @.now_us() - 86400000000
      and not exists (select from @.chat c where c.mesh = l.mesh and c.key = l.short)
      and not exists (select from @.parked p where p.mesh = l.mesh and p.key = l.short);
  return null;
end`,
  },
  {
    signature: '@.see_long(the_namespace text, the_shard integer, shorts text[]) returns text',
    isStep: true,
    isStable: true,
    body: `
begin
  return (select json_object_agg(l.short, l.key) from @.mesh m join @.long_key l on l.mesh = m.id
    where m.namespace = the_namespace and m.shard = the_shard and l.short = any (shorts));
end`,
  },
];
