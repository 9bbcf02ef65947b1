/** Who is next, who is skipped, who takes over a message, who is buried. See queues.ts of @botmesh/core. */
import type { SqlFunction } from './functions.js';
import { atNewest } from './newest.js';

export const QUEUE_FUNCTIONS: readonly SqlFunction[] = [
  {
    signature: '@.put(c @.chat) returns void',
    body: `
begin
  update @.chat t set seq = c.seq, owner = c.owner, fence = c.fence, era = c.era, batch = c.batch,
    is_message = c.is_message, offered = c.offered, more = c.more, orphan = c.orphan
  where t.mesh = c.mesh and t.key = c.key;
  if not found then insert into @.chat select c.*; end if;
end`,
  },
  {
    signature: '@.count_ticket(the_mesh integer, the_epoch bigint, the_batch bigint, change bigint) returns void',
    body: `
begin
  update @.replica set total = total + change,
    fresh = fresh + case when the_batch <> 0 and the_batch = batch then change else 0 end
  where ${atNewest('replica', 'mesh = the_mesh', 'epoch', 'the_epoch')};
end`,
  },
  {
    // Takes the head away; the next in line, or nobody, is the head then.
    signature: '@.shift(c @.chat) returns @.chat',
    body: `
declare
  e @.entry;
begin
  c.offered := false;
  c.orphan := null;
  if c.more then
    select * into e from @.entry where mesh = c.mesh and key = c.key and seq > c.seq order by seq limit 1;
  end if;
  if e.seq is null then
    c.seq := 0;
    c.owner := 0;
    c.more := false;
    return c;
  end if;
  c.seq := e.seq;
  c.owner := e.owner;
  c.fence := 0;
  c.era := 0;
  c.batch := e.batch;
  c.is_message := e.is_message;
  c.more := exists (select from @.entry where mesh = c.mesh and key = c.key and seq > c.seq);
  if not e.is_message then delete from @.entry where mesh = e.mesh and key = e.key and seq = e.seq; end if;
  return c;
end`,
  },
  {
    // Brings the head of a key to a live owner and grants it. Every step that changes a head ends here.
    signature: '@.settle(s @.step, the_key text) returns @.step',
    body: `
declare
  c @.chat;
  owner @.replica;
  has_owner boolean;
  got record;
begin
  select * into c from @.chat where mesh = s.mesh and key = the_key;
  if not found then return s; end if;
  while c.seq <> 0 loop
    select * into owner from @.replica where mesh = s.mesh and epoch = c.owner;
    has_owner := found;
    if has_owner then
      exit when c.fence <> 0 and c.era = s.era;
      -- A replaced replica may still believe in an old grant until it leaves or its lease is over.
      exit when owner.replaced and c.fence <> 0;
      if not owner.replaced then
        exit when s.quarantine <> 0;
        s.last := greatest(s.last + 1, s.clock);
        c.fence := s.last;
        c.era := s.era;
        if c.seq = s.fresh then null;
        elsif owner.epoch = s.me then
          s.grants := s.grants || json_build_array(c.key, c.seq, c.fence)::text;
        else
          s.pushes := s.pushes
            || json_build_array(owner.instance, 'grant', owner.epoch, s.era, c.seq, c.fence, c.key)::text;
        end if;
        exit;
      end if;
    end if;
    if c.is_message then
      got := @.pass_on(s, c);
      s := got.s;
      c := got.c;
      exit when c.orphan is not null;
    else
      if has_owner then perform @.count_ticket(s.mesh, c.owner, c.batch, -1); end if;
      c := @.shift(c);
    end if;
  end loop;
  perform @.put(c);
  return s;
end`,
  },
  {
    // Gives the head, a message whose owner is gone, to a live replica, or parks it. An orphan where nobody can take it now.
    signature: '@.pass_on(inout s @.step, inout c @.chat)',
    body: `
declare
  e @.entry;
  adopter @.replica;
begin
  if c.fence <> 0 then c := @.count_attempt(c, c.owner <> 0); end if;
  select * into strict e from @.entry where mesh = c.mesh and key = c.key and seq = c.seq;
  if c.owner <> 0 then perform @.count_ticket(s.mesh, c.owner, c.batch, -1); end if;
  c.owner := 0;
  c.offered := false;
  if e.attempt > e.max_attempts then
    insert into @.parked (mesh, key, seq, id, long_id, body, attempts, error)
      values (e.mesh, e.key, e.seq, e.id, e.long_id, e.body, e.attempt - 1, e.error);
    delete from @.entry where mesh = c.mesh and key = c.key and seq = c.seq;
    s.parked := s.parked || json_build_array(e.key, coalesce(e.long_id, e.id), e.attempt - 1, e.error)::text;
    c := @.shift(c);
    return;
  end if;
  if s.quarantine = 0 then
    adopter := @.choose_adopter(s, c.seq, e.suspect);
  end if;
  if adopter.epoch is null then
    if c.orphan is null then
      s.count := s.count + 1;
      c.orphan := s.count + case when e.suspect then @.first_suspect() else 0 end;
    end if;
    return;
  end if;
  c.orphan := null;
  if e.suspect then update @.replica set trial = c.key where mesh = s.mesh and epoch = adopter.epoch; end if;
  c.owner := adopter.epoch;
  c.batch := case when adopter.epoch = s.me then s.batch else 0 end;
  c.offered := true;
  perform @.count_ticket(s.mesh, c.owner, c.batch, 1);
  s.last := greatest(s.last + 1, s.clock);
  c.fence := s.last;
  c.era := s.era;
  if adopter.epoch = s.me then s := @.offer(s, c);
  else s.pushes := s.pushes || json_build_array(adopter.instance, 'look', adopter.epoch)::text; end if;
end`,
  },
  {
    signature: '@.offer(s @.step, c @.chat) returns @.step',
    body: `
declare
  e @.entry;
begin
  select * into strict e from @.entry where mesh = c.mesh and key = c.key and seq = c.seq;
  s.adopted := s.adopted
    || json_build_array(c.key, c.seq, c.fence, coalesce(e.long_id, e.id), e.body, e.attempt)::text;
  s.adopted_seqs := s.adopted_seqs || c.seq;
  return s;
end`,
  },
  {
    // The caller if it can and does not pass the message on just now, else the live replica with the fewest tickets.
    signature: '@.choose_adopter(s @.step, the_seq bigint, is_suspect boolean) returns @.replica',
    body: `
declare
  best @.replica;
begin
  if s.me <> 0 and s.my_adopts and s.passing <> the_seq and coalesce(cardinality(s.adopted), 0) < 64 then
    select * into best from @.replica r
      where mesh = s.mesh and epoch = s.me and not (is_suspect and @.is_on_trial(s, r));
    if found then return best; end if;
  end if;
  select * into best from @.replica r
    where mesh = s.mesh and adopts and proven and not replaced and epoch <> s.me
      and not (is_suspect and @.is_on_trial(s, r))
    order by total, epoch limit 1;
  return best;
end`,
  },
  {
    // It was granted and did not end. is_death: neither did its replica. From its third attempt on, or its last one, it is
    // then suspect.
    signature: '@.count_attempt(c @.chat, is_death boolean) returns @.chat',
    body: `
begin
  c.fence := 0;
  update @.entry set attempt = attempt + 1, suspect = suspect or (is_death and attempt + 1 >= least(3, max_attempts))
    where mesh = c.mesh and key = c.key and seq = c.seq;
  return c;
end`,
  },
  {
    // Whether a replica has a suspect message in its hand. One that has run for five leases holds up no other.
    signature: '@.is_on_trial(s @.step, r @.replica) returns boolean',
    body: `
begin
  return r.trial is not null and exists (
    select from @.chat c join @.entry e on e.mesh = c.mesh and e.key = c.key and e.seq = c.seq
    where c.mesh = s.mesh and c.key = r.trial and c.owner = r.epoch and e.suspect
      and s.wall - c.fence / 1000.0 < 5 * s.lease
  );
end`,
  },
  {
    // Hands out the suspect message that has waited longest, if any replica may have one.
    signature: '@.try_next_suspect(s @.step) returns @.step',
    body: `
declare
  found_key text;
begin
  select key into found_key from @.chat where mesh = s.mesh and orphan >= @.first_suspect() order by orphan limit 1;
  if found then s := @.settle(s, found_key); end if;
  return s;
end`,
  },
  {
    // R1: removing the row is the death. Those of its tickets that stand further back are skipped when they come to the head.
    signature: '@.bury(s @.step, the_epoch bigint, in_good_order boolean default false) returns @.step',
    body: `
declare
  found_key text;
begin
  delete from @.replica where mesh = s.mesh and epoch = the_epoch;
  delete from @.note where mesh = s.mesh and epoch = the_epoch;
  -- A replica that leaves in good order does not count against its unfinished messages.
  if in_good_order then
    update @.chat set fence = 0 where mesh = s.mesh and owner = the_epoch and seq <> 0 and is_message;
  end if;
  for found_key in select key from @.chat where mesh = s.mesh and owner = the_epoch and seq <> 0 order by seq loop
    s := @.settle(s, found_key);
  end loop;
  return s;
end`,
  },
  {
    // R4: the newer start has the name from now on; what the older holds stays its own until it has surely ended.
    signature: '@.replace(s @.step, r @.replica) returns @.step',
    body: `
declare
  found_key text;
begin
  if not r.replaced then
    update @.replica set replaced = true where mesh = r.mesh and epoch = r.epoch;
    s.pushes := s.pushes || json_build_array(r.instance, 'replaced', r.epoch)::text;
  end if;
  for found_key in
    select key from @.chat where mesh = s.mesh and owner = r.epoch and seq <> 0 and fence = 0 order by seq
  loop
    s := @.settle(s, found_key);
  end loop;
  return s;
end`,
  },
  {
    // The first that is heard of an epoch after its join: now it has the name, and older starts are replaced.
    signature: '@.prove(s @.step, me @.replica) returns @.step',
    body: `
declare
  r @.replica;
begin
  update @.replica set proven = true where mesh = me.mesh and epoch = me.epoch;
  for r in
    select * from @.replica
    where mesh = me.mesh and replica_id = me.replica_id and first_epoch < me.first_epoch order by epoch
  loop
    s := @.replace(s, r);
  end loop;
  return s;
end`,
  },
  {
    // Leaves a message in its place without an owner. At the head somebody is found at once.
    signature: '@.detach(s @.step, c @.chat, the_seq bigint, the_batch bigint) returns @.step',
    body: `
begin
  perform @.count_ticket(s.mesh, s.me, the_batch, -1);
  if c.seq <> the_seq then
    update @.entry set owner = 0 where mesh = c.mesh and key = c.key and seq = the_seq;
    return s;
  end if;
  c.owner := 0;
  c.offered := false;
  perform @.put(c);
  return @.settle(s, c.key);
end`,
  },
  {
    // Takes a ticket of the caller out, wherever it stands.
    signature: '@.remove(s @.step, c @.chat, the_seq bigint, the_batch bigint) returns @.step',
    body: `
begin
  perform @.count_ticket(s.mesh, s.me, the_batch, -1);
  delete from @.entry where mesh = c.mesh and key = c.key and seq = the_seq;
  if c.seq <> the_seq then return s; end if;
  perform @.put(@.shift(c));
  return @.settle(s, c.key);
end`,
  },
];
