/** The heartbeat. See transitions.ts of @botmesh/core. */
import type { SqlFunction } from './functions.js';

export const BEAT: readonly SqlFunction[] = [
  {
    signature: `@.step_beat(the_namespace text, the_shard integer, sync text, lock_ms text, the_epoch bigint,
  the_instance text, number bigint, the_era bigint, watched_ms double precision, seen bigint, can_adopt boolean,
  answered bigint, heard bigint, keys text[], seqs bigint[], fences bigint[]) returns text`,
    isStep: true,
    body: `
declare
  s @.step;
  me @.replica;
  r @.replica;
  got record;
  refusal text;
  lost text;
  has_more boolean;
  notes text;
begin
  s := @.begin_step(the_namespace, the_shard, sync, lock_ms);
  got := @.admit(s, the_epoch, the_instance);
  s := got.s;
  me := got.me;
  refusal := got.refusal;
  -- An old view would take away what came after it.
  if refusal is null and number <= me.beat_number then refusal := 'stale'; end if;
  if refusal is not null then
    perform @.finish_step(s);
    return @.reply(s, refusal);
  end if;
  if not me.proven then s := @.prove(s, me); end if;
  s := @.note_seen(s, seen);
  update @.replica set beat_number = number, adopts = can_adopt, beat = s.now,
      since = case when s.now - beat < 0 or s.now - beat > s.lease / 3 then s.now else since end
    where mesh = s.mesh and epoch = s.me
    returning since into s.my_since;
  s.my_beat := s.now;
  s.my_adopts := can_adopt;
  if the_era = s.era and watched_ms >= s.quarantine then s.quarantine := 0; end if;

  -- A clock that was set back may keep nobody alive for ever.
  update @.replica set beat = s.now where mesh = s.mesh and beat > s.now;
  for r in select * from @.replica where mesh = s.mesh and epoch <> s.me and s.now - beat > s.lease order by epoch loop
    if @.is_over(s, r.beat) then s := @.bury(s, r.epoch); end if;
  end loop;
  got := @.compare_view(s, answered, keys, seqs, fences);
  s := got.s;
  lost := got.lost;
  got := @.look_around(s, answered);
  s := got.s;
  has_more := got.has_more;
  got := @.hear_up_to(s, heard);
  notes := got.notes;
  has_more := has_more or got.is_full;
  s := @.forget_old(s);
  s.pushes := s.pushes || json_build_array(me.instance, 'ping', s.me)::text;
  perform @.finish_step(s);
  return @.reply(s, 'alive ' || s.era || ' ' || (s.quarantine <> 0)::int || ' ' || has_more::int || ' ' || lost || e'\\n'
    || @.news(s) || e'\\n' || notes);
end`,
  },
  {
    // R10, R11: what the caller lists is confirmed, granted, or reported lost: by its number in the list.
    signature: `@.compare_view(inout s @.step, answered bigint, keys text[], seqs bigint[], fences bigint[], out lost text)`,
    body: `
declare
  v record;
  me @.replica;
  beyond bigint;
  known bigint := 0;
  known_fresh bigint := 0;
begin
  lost := '';
  for v in
    select u.at - 1 as at, u.key, u.seq, u.fence, c.seq as head, c.owner as head_owner, c.fence as head_fence,
      c.era as head_era, c.batch as head_batch, c.offered, e.owner as waiting_owner, e.batch as waiting_batch
    from unnest(keys, seqs, fences) with ordinality u(key, seq, fence, at)
      left join lateral (select * from @.chat t where t.mesh = s.mesh and t.key = u.key and t.seq <> 0 offset 0) c on true
      left join lateral (
        select t.owner, t.batch from @.entry t where t.mesh = s.mesh and t.key = u.key and t.seq = u.seq and u.seq > c.seq offset 0
      ) e on true
    order by u.at
  loop
    if v.head = v.seq and v.head_owner = s.me then
      known := known + 1;
      if v.head_batch > answered then known_fresh := known_fresh + 1; end if;
      if v.offered then update @.chat set offered = false where mesh = s.mesh and key = v.key; end if;
      if v.fence = 0 then
        -- The caller waits for it: it missed the grant, or a server change left it open.
        if v.head_fence = 0 or v.head_era <> s.era then s := @.settle(s, v.key);
        elsif v.head_fence <= s.stamp_before then
          s.grants := s.grants || json_build_array(v.key, v.seq, v.head_fence)::text;
        end if;
      elsif v.fence <> v.head_fence then
        lost := lost || ' ' || v.at;
      elsif v.head_era <> s.era then
        update @.chat set era = s.era where mesh = s.mesh and key = v.key;
      end if;
    elsif v.head <> v.seq and v.waiting_owner = s.me then
      known := known + 1;
      if v.waiting_batch > answered then known_fresh := known_fresh + 1; end if;
      if v.fence <> 0 then lost := lost || ' ' || v.at; end if;
    else
      lost := lost || ' ' || v.at;
    end if;
  end loop;
  -- As a rule the caller knows all it has, but for what its last batch brought.
  select * into me from @.replica where mesh = s.mesh and epoch = s.me;
  beyond := case when answered >= me.batch then 0 when answered = me.batch - 1 then me.fresh end;
  if beyond is null or me.total - known <> beyond - known_fresh then s := @.disown(s, seqs, answered); end if;
end`,
  },
  {
    // R12: what the owner does not know of goes; a message is left for whoever can handle it.
    signature: '@.disown(s @.step, listed bigint[], answered bigint) returns @.step',
    body: `
declare
  e record;
  c @.chat;
begin
  for e in
    select key, seq, batch, is_message from @.chat
      where mesh = s.mesh and owner = s.me and seq <> 0 and not offered and batch <= answered and seq <> all (listed)
    union all
    select t.key, t.seq, t.batch, t.is_message from @.entry t join @.chat k on k.mesh = t.mesh and k.key = t.key
      where t.mesh = s.mesh and t.owner = s.me and t.seq > k.seq and k.seq <> 0 and t.batch <= answered and t.seq <> all (listed)
    order by seq
  loop
    -- It may have come to the head meanwhile.
    select * into c from @.chat where mesh = s.mesh and key = e.key;
    if c.seq > e.seq or c.seq = 0 then continue; end if;
    if e.is_message then s := @.detach(s, c, e.seq, e.batch);
    else s := @.remove(s, c, e.seq, e.batch); end if;
  end loop;
  return s;
end`,
  },
  {
    // Hands the caller what was offered and not yet listed, and messages that nobody took.
    signature: '@.look_around(inout s @.step, answered bigint, out has_more boolean)',
    body: `
declare
  c @.chat;
  found_key text;
begin
  has_more := false;
  if not s.my_adopts then
    -- Nobody listens there any more: it goes to somebody else, its attempt not begun.
    for c in select * from @.chat where mesh = s.mesh and offered and owner = s.me and batch <= answered order by seq loop
      c.fence := 0;
      s := @.detach(s, c, c.seq, c.batch);
    end loop;
    return;
  end if;
  if s.quarantine <> 0 then return; end if;
  s := @.try_next_suspect(s);
  for found_key in select key from @.chat where mesh = s.mesh and orphan < @.first_suspect() order by orphan limit 64 loop
    s := @.settle(s, found_key);
  end loop;
  for c in select * from @.chat where mesh = s.mesh and offered and owner = s.me and is_message and batch <= answered order by seq loop
    continue when c.seq = any (s.adopted_seqs);
    if cardinality(s.adopted_seqs) >= 64 then
      has_more := true;
      return;
    end if;
    -- R10: in the store's former life a later fence of this key may have been given.
    if c.fence = 0 or c.era <> s.era then
      s.last := greatest(s.last + 1, s.clock);
      c.fence := s.last;
      c.era := s.era;
      perform @.put(c);
    end if;
    s := @.offer(s, c);
  end loop;
  has_more := exists (select from @.chat where mesh = s.mesh and orphan < @.first_suspect());
end`,
  },
  {
    // Of its notes the caller keeps those that it has not heard and that are for a turn it still has.
    signature: '@.hear_up_to(s @.step, heard bigint, out notes text, out is_full boolean)',
    body: `
declare
  told bigint;
begin
  -- A later grant of the same ticket is another turn.
  delete from @.note n where n.mesh = s.mesh and n.epoch = s.me and (n.at <= heard or not exists (
    select from @.chat c where c.mesh = n.mesh and c.key = n.key and c.seq = n.seq and c.owner = s.me and c.fence <> 0
      and c.fence < n.at));
  select '[' || string_agg(json_build_array(n.at, n.key, n.seq, n.note)::text, ',' order by n.at) || ']', count(*)
    into notes, told
    from (select * from @.note where mesh = s.mesh and epoch = s.me order by at limit 64) n;
  notes := coalesce(notes, '');
  is_full := told = 64 and (select count(*) from @.note where mesh = s.mesh and epoch = s.me) > 64;
end`,
  },
  {
    // Ids and paces whose time is over, and chats that have been idle for an hour: a share of each.
    signature: '@.forget_old(s @.step) returns @.step',
    body: `
declare
  upto bigint;
  last_key text;
  looked_at bigint;
begin
  select d.number into upto from @.done d where d.mesh = s.mesh and d.number > s.forgotten order by d.number limit 1;
  if upto is not null then
    -- In order of finishing, up to the first whose time is not over.
    select max(number) filter (where is_over) into upto from (
      select number, bool_and(until <= s.wall) over (order by number) as is_over
      from (select number, until from @.done where mesh = s.mesh and number > s.forgotten order by number limit 4096) shared
    ) judged;
    if upto is not null then
      delete from @.done where mesh = s.mesh and number > s.forgotten and number <= upto;
      s.forgotten := upto;
    end if;
  end if;
  delete from @.pace p using (
    select name from @.pace where mesh = s.mesh and until <= s.wall limit 4096 for update skip locked
  ) old where p.mesh = s.mesh and p.name = old.name;
  select max(key), count(*) into last_key, looked_at
    from (select key from @.chat where mesh = s.mesh and key > s.swept order by key limit 64) looked;
  if looked_at > 0 then
    delete from @.chat where mesh = s.mesh and key > s.swept and key <= last_key
      and seq = 0 and fence < s.clock - 3600000000;
  end if;
  s.swept := case when looked_at < 64 then '' else last_key end;
  return s;
end`,
  },
];
