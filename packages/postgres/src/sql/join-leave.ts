/** The steps with which an epoch begins and ends. See transitions.ts of @botmesh/core. */
import type { SqlFunction } from './functions.js';

export const JOIN_AND_LEAVE: readonly SqlFunction[] = [
  {
    signature: `@.step_join(the_namespace text, the_shard integer, sync text, lock_ms text, the_instance text,
  the_replica_id text, first bigint, can_adopt boolean, seen bigint, wanted_format double precision,
  wanted_lease double precision, wanted_shards double precision) returns text`,
    isStep: true,
    body: `
declare
  s @.step;
  r @.replica;
  is_same boolean;
begin
  s := @.begin_step(the_namespace, the_shard, sync, lock_ms);
  is_same := s.format = wanted_format and s.lease = wanted_lease and s.shards = wanted_shards;
  -- R14: a mesh in use keeps its configuration.
  if s.lease <> 0 and not is_same then
    if exists (select from @.replica where mesh = s.mesh and abs(s.now - beat) <= 3 * s.lease) then
      perform @.finish_step(s);
      return @.reply(s, 'refused ' || json_build_array(s.format, s.lease, s.shards)::text);
    end if;
    for r in select * from @.replica where mesh = s.mesh order by epoch loop
      s := @.bury(s, r.epoch);
    end loop;
    s := @.start_era(s, greatest(s.lease, wanted_lease));
  end if;
  s.format := wanted_format;
  s.lease := wanted_lease;
  s.shards := wanted_shards;
  if s.quarantine = 'infinity' then s.quarantine := @.quarantine_of(s.lease); end if;
  s := @.note_seen(s, seen);

  select * into r from @.replica where mesh = s.mesh and instance = the_instance order by epoch limit 1;
  -- A start whose answer was lost, and that a newer one replaced meanwhile, may not take the name back.
  if r.replaced then
    perform @.finish_step(s);
    return @.reply(s, 'replaced');
  end if;
  if seen < r.epoch then
    -- The caller will count its trust from this repetition, so the lease must count from it too.
    perform @.renew(s, r);
    return @.joined(s, r.epoch);
  end if;
  if first <> 0 and exists (
    select from @.replica where mesh = s.mesh and replica_id = the_replica_id and proven and first_epoch > first
  ) then
    perform @.finish_step(s);
    return @.reply(s, 'replaced');
  end if;
  -- The caller knew this epoch and counts it as over: a rollback brought it back.
  if r.epoch is not null then s := @.bury(s, r.epoch); end if;
  s.last := greatest(s.last + 1, s.clock);
  insert into @.replica (mesh, epoch, replica_id, instance, first_epoch, adopts, beat, since)
    values (s.mesh, s.last, the_replica_id, the_instance, case first when 0 then s.last else first end, can_adopt, s.now, s.now);
  return @.joined(s, s.last);
end`,
  },
  {
    signature: '@.joined(s @.step, the_epoch bigint) returns text',
    body: `
begin
  perform @.finish_step(s);
  return @.reply(s, 'joined ' || the_epoch || ' ' || s.era || ' ' || (s.quarantine <> 0)::int || e'\\n' || @.news(s));
end`,
  },
  {
    // R2: a gap in its own heartbeats, either way, makes a replica wait a whole lease before it may judge others again.
    signature: '@.renew(s @.step, r @.replica) returns void',
    body: `
begin
  update @.replica set beat = s.now,
    since = case when s.now - beat < 0 or s.now - beat > s.lease / 3 then s.now else since end
  where mesh = r.mesh and epoch = r.epoch;
end`,
  },
  {
    signature: `@.step_leave(the_namespace text, the_shard integer, sync text, lock_ms text, the_epoch bigint,
  the_instance text) returns text`,
    isStep: true,
    body: `
declare
  s @.step;
begin
  s := @.begin_step(the_namespace, the_shard, sync, lock_ms);
  if exists (select from @.replica where mesh = s.mesh and epoch = the_epoch and instance = the_instance) then
    s := @.bury(s, the_epoch, true);
  end if;
  perform @.finish_step(s);
  return @.reply(s, 'left');
end`,
  },
];
