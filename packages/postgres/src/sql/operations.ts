/** The operations of a batch, one at a time. See operations.ts of @botmesh/core. */
import type { SqlFunction } from './functions.js';

export const OPERATION_FUNCTIONS: readonly SqlFunction[] = [
  {
    // Buries the owner of the head if its lease is over, so that nobody queues behind the dead.
    signature: '@.clear_way(s @.step, the_key text) returns @.step',
    body: `
declare
  head_owner bigint;
  head_beat bigint;
begin
  select c.owner, r.beat into head_owner, head_beat
    from @.chat c left join @.replica r on r.mesh = c.mesh and r.epoch = c.owner
    where c.mesh = s.mesh and c.key = the_key and c.seq <> 0;
  if not found then return s; end if;
  if head_beat is null then return @.settle(s, the_key); end if;
  if head_owner <> s.me and @.is_over(s, head_beat) then return @.bury(s, head_owner); end if;
  return s;
end`,
  },
  {
    // e: what there is of the ticket but for its place. Its place is what the operation comes to.
    signature: '@.enqueue(s @.step, e @.entry) returns @.step',
    body: `
declare
  c @.chat;
begin
  s.last := greatest(s.last + 1, s.clock);
  e.mesh := s.mesh;
  e.seq := s.last;
  e.owner := s.me;
  e.batch := s.batch;
  s.taken_seq := e.seq;
  s.taken_fence := 0;
  perform @.count_ticket(s.mesh, s.me, s.batch, 1);
  if e.is_message then insert into @.entry select e.*; end if;
  select * into c from @.chat where mesh = s.mesh and key = e.key;
  if not found or c.seq = 0 then
    c := (s.mesh, e.key, e.seq, e.owner, 0, 0, e.batch, e.is_message, false, false, null)::@.chat;
    if s.quarantine = 0 then
      s.last := greatest(s.last + 1, s.clock);
      c.fence := s.last;
      c.era := s.era;
      s.taken_fence := s.last;
    end if;
    perform @.put(c);
    return s;
  end if;
  if not e.is_message then insert into @.entry select e.*; end if;
  if not c.more then update @.chat set more = true where mesh = s.mesh and key = e.key; end if;
  s.fresh := e.seq;
  s := @.clear_way(s, e.key);
  s.fresh := 0;
  select fence into s.taken_fence from @.chat where mesh = s.mesh and key = e.key and seq = e.seq;
  s.taken_fence := coalesce(s.taken_fence, 0);
  return s;
end`,
  },
  {
    signature: '@.plain(the_key text) returns @.entry',
    body: `
declare
  e @.entry;
begin
  e.key := the_key;
  e.is_message := false;
  e.attempt := 1;
  e.max_attempts := 0;
  e.dedupe_ms := 0;
  e.suspect := false;
  return e;
end`,
  },
  {
    signature: '@.try_take(s @.step, the_key text) returns @.step',
    body: `
begin
  if s.quarantine <> 0 then return s; end if;
  s := @.clear_way(s, the_key);
  if exists (select from @.chat where mesh = s.mesh and key = the_key and seq <> 0) then return s; end if;
  return @.enqueue(s, @.plain(the_key));
end`,
  },
  {
    signature: `@.accept(s @.step, the_key text, the_id text, the_long_id text, the_body text, the_max double precision,
  the_dedupe double precision) returns @.step`,
    body: `
declare
  e @.entry;
begin
  if the_id is not null then
    if exists (select from @.entry where mesh = s.mesh and key = the_key and id = the_id)
      or exists (select from @.parked where mesh = s.mesh and key = the_key and id = the_id)
      or exists (select from @.done where mesh = s.mesh and key = the_key and id = the_id and until > s.wall)
    then
      return s;
    end if;
    delete from @.done where mesh = s.mesh and key = the_key and id = the_id;
  end if;
  e := @.plain(the_key);
  e.is_message := true;
  e.id := the_id;
  e.long_id := the_long_id;
  e.body := the_body;
  e.max_attempts := the_max;
  e.dedupe_ms := the_dedupe;
  return @.enqueue(s, e);
end`,
  },
  {
    // Frees a message's id, or remembers it for its time when the message is done.
    signature: '@.forget(s @.step, the_key text, the_seq bigint, is_done boolean) returns @.step',
    body: `
declare
  e @.entry;
begin
  delete from @.entry where mesh = s.mesh and key = the_key and seq = the_seq returning * into e;
  if e.id is null or not is_done then return s; end if;
  s.count := s.count + 1;
  insert into @.done (mesh, key, id, until, number) values (s.mesh, the_key, e.id, s.wall + e.dedupe_ms, s.count)
    on conflict (mesh, key, id) do update set until = excluded.until, number = excluded.number;
  return s;
end`,
  },
  {
    // Ends messages that wait behind the head, whoever owns them: only the holder may, for nobody else runs here now.
    signature: '@.finish_behind(s @.step, c @.chat, also bigint[]) returns @.step',
    body: `
declare
  found record;
begin
  for found in
    select e.seq, e.owner, e.batch, r.instance
    from @.entry e left join @.replica r on r.mesh = e.mesh and r.epoch = e.owner
    where e.mesh = c.mesh and e.key = c.key and e.seq > c.seq and e.seq = any (also) and e.is_message order by e.seq
  loop
    s := @.forget(s, c.key, found.seq, true);
    if found.instance is not null then
      perform @.count_ticket(s.mesh, found.owner, found.batch, -1);
      if found.owner <> s.me then
        s.pushes := s.pushes || json_build_array(found.instance, 'look', found.owner)::text;
      end if;
    end if;
  end loop;
  return s;
end`,
  },
  {
    // how: the letter of the batch. R12: what the caller does not own is left alone.
    signature: '@.release(s @.step, the_key text, the_seq bigint, how text, reason text, also bigint[]) returns @.step',
    body: `
declare
  c @.chat;
  is_head boolean;
  is_held boolean;
  is_text boolean;
  is_suspect boolean;
  brought_by bigint;
begin
  select * into c from @.chat where mesh = s.mesh and key = the_key and seq <> 0;
  if not found then return s; end if;
  is_head := c.seq = the_seq;
  if is_head then
    if c.owner <> s.me then return s; end if;
    is_text := c.is_message;
    brought_by := c.batch;
  else
    select is_message, batch into is_text, brought_by from @.entry
      where mesh = s.mesh and key = the_key and seq = the_seq and seq > c.seq and owner = s.me;
    if not found then return s; end if;
  end if;
  is_held := is_head and c.fence <> 0 and c.era = s.era;
  s.taken_seq := the_seq;
  s.taken_fence := case when is_held then c.fence else 0 end;
  if is_held and cardinality(also) > 0 then s := @.finish_behind(s, c, also); end if;
  if not is_text then return @.remove(s, c, the_seq, brought_by); end if;
  if how = 'l' and is_head and c.fence <> 0 then c := @.count_attempt(c, true); end if;
  select suspect into is_suspect from @.entry where mesh = s.mesh and key = the_key and seq = the_seq;
  if is_suspect then
    update @.replica set trial = null where mesh = s.mesh and epoch = s.me and trial = the_key;
  end if;
  if how = 'p' then
    -- Back to its place as if it had never been granted.
    c.fence := 0;
    s.passing := the_seq;
    s := @.detach(s, c, the_seq, brought_by);
    s.passing := 0;
    return s;
  end if;
  if how = 'b' or how = 'l' then
    if reason is not null then
      update @.entry set error = reason where mesh = s.mesh and key = the_key and seq = the_seq;
    end if;
    s := @.detach(s, c, the_seq, brought_by);
  else
    s := @.forget(s, the_key, the_seq, how = 'd');
    s := @.remove(s, c, the_seq, brought_by);
  end if;
  if is_suspect then s := @.try_next_suspect(s); end if;
  return s;
end`,
  },
  {
    signature: '@.tell(s @.step, the_key text, the_note text) returns @.step',
    body: `
declare
  c @.chat;
  holder @.replica;
begin
  select * into c from @.chat where mesh = s.mesh and key = the_key and seq <> 0;
  if not found or c.fence = 0 or c.era <> s.era then return s; end if;
  select * into holder from @.replica where mesh = s.mesh and epoch = c.owner;
  if not found or holder.replaced then return s; end if;
  if (select count(*) from @.note where mesh = s.mesh and epoch = holder.epoch) >= 256 then return s; end if;
  s.last := greatest(s.last + 1, s.clock);
  insert into @.note (mesh, epoch, at, key, seq, note) values (s.mesh, holder.epoch, s.last, the_key, c.seq, the_note);
  s.pushes := s.pushes || json_build_array(holder.instance, 'look', holder.epoch)::text;
  s.taken_seq := c.seq;
  s.taken_fence := c.fence;
  return s;
end`,
  },
  {
    // Nobody owns it until it is the head.
    signature: `@.replay(s @.step, the_key text, the_seq bigint, the_max double precision, the_dedupe double precision)
  returns @.step`,
    body: `
declare
  p @.parked;
  c @.chat;
begin
  delete from @.parked where mesh = s.mesh and key = the_key and seq = the_seq returning * into p;
  if not found then return s; end if;
  s.last := greatest(s.last + 1, s.clock);
  s.taken_seq := s.last;
  s.taken_fence := 0;
  insert into @.entry (mesh, key, seq, owner, batch, is_message, max_attempts, dedupe_ms, id, long_id, body)
    values (s.mesh, the_key, s.last, 0, 0, true, the_max, the_dedupe, p.id, p.long_id, p.body);
  select * into c from @.chat where mesh = s.mesh and key = the_key;
  if found and c.seq <> 0 then
    update @.chat set more = true where mesh = s.mesh and key = the_key;
    return s;
  end if;
  perform @.put((s.mesh, the_key, s.last, 0, 0, 0, 0, true, false, false, null)::@.chat);
  return @.settle(s, the_key);
end`,
  },
  {
    signature: '@.drop_parked(s @.step, the_key text, the_seq bigint) returns @.step',
    body: `
begin
  delete from @.parked where mesh = s.mesh and key = the_key and seq = the_seq;
  if found then
    s.taken_seq := the_seq;
    s.taken_fence := 0;
  end if;
  return s;
end`,
  },
];
