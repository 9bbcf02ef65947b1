/**
 * The step that runs one operation, which is most of them where few chats are busy. What takes a turn, gives it back or
 * hands it on among replicas that are alive is read by one statement after the lock, and written by one for each table;
 * anything else is left to step_apply. PL/pgSQL prepares each expression anew in each transaction, so there are few.
 */
import type { SqlFunction } from './functions.js';
import { newest } from './newest.js';

export const SINGLE_TYPE = `
create type @.single as (
  mesh integer,
  mesh_at tid,
  replica_at tid,
  now bigint,
  era bigint,
  lease double precision,
  count bigint,
  base bigint,
  -- The head and its row, null where there is none.
  chat_at tid,
  seq bigint,
  owner bigint,
  fence bigint,
  chat_era bigint,
  is_message boolean,
  offered boolean,
  more boolean
);
`;

export const SINGLE: readonly SqlFunction[] = [
  {
    // letter: r, t, a, m, d, b, p or w, as in step_apply.
    signature: `@.step_single(the_namespace text, the_shard integer, sync text, lock_ms text, channels text,
  the_epoch bigint, the_instance text, number bigint, letter text, the_key text, the_seq bigint, the_id text,
  the_long_id text, the_text text, the_max double precision, the_dedupe double precision) returns text`,
    isStep: true,
    body: `
declare
  a @.single;
  the_run text;
  answer text;
  setting text;
begin
  setting := @.set_up(sync, lock_ms);
  select id, ctid, era, lease, count, last, case when quarantine = 0 then run end
    into a.mesh, a.mesh_at, a.era, a.lease, a.count, a.base, the_run from @.mesh
    where namespace = the_namespace and shard between the_shard and the_shard order by shard desc limit 1 for update;
  a.now := @.now_us() / 1000;
  select at into a.replica_at from ${newest('replica', 'mesh = a.mesh', 'epoch', 'the_epoch')} r
    where instance = the_instance and proven and not replaced and trial is null and batch < number
      and abs(a.now) <= 4503599627370 and the_run = (select id || ' ' || xmin::text from @.server) and @.few() > 0;
  -- Else something is the matter that step_apply finds out before it looks at its operations.
  if a.replica_at is not null then
    a.base := greatest(a.base, a.now * 1000 - 1);
    select ctid, seq, owner, fence, era, is_message, offered, more
      into a.chat_at, a.seq, a.owner, a.fence, a.chat_era, a.is_message, a.offered, a.more from @.chat
      where mesh = a.mesh and key between the_key and the_key order by key desc limit 1;
    if strpos('rtam', letter) > 0 then
      answer := @.take_one(a, the_epoch, number, letter, the_key, the_id, the_long_id, the_text, the_max, the_dedupe);
    elsif a.seq = the_seq and a.owner = the_epoch and not a.offered then
      answer := @.give_one(a, channels, the_epoch, number, letter, the_key);
    end if;
    if answer is not null then return answer; end if;
  end if;
  return @.step_apply(the_namespace, the_shard, sync, lock_ms, channels, the_epoch, the_instance, number, letter, '{1}',
    array[the_key], array[(strpos('dbpw', letter) > 0)::integer], array[the_seq], array[the_id], array[the_long_id],
    array[the_text], array[the_max], array[the_dedupe], array[null::text]);
end`,
  },
  {
    // Null where whoever has the head is not alive.
    signature: `@.take_one(a @.single, the_epoch bigint, number bigint, letter text, the_key text, the_id text,
  the_long_id text, the_text text, the_max double precision, the_dedupe double precision) returns text`,
    body: `
declare
  is_free boolean := a.seq is null or a.seq = 0;
  is_text boolean := letter = 'a' or letter = 'm';
  is_known boolean := false;
  answer text;
begin
  if letter = 'a' then
    delete from @.done where mesh = a.mesh and key = the_key and id = the_id and until <= a.now;
    is_known := exists (select from @.entry where mesh = a.mesh and key = the_key and id = the_id)
      or exists (select from @.parked where mesh = a.mesh and key = the_key and id = the_id)
      or exists (select from @.done where mesh = a.mesh and key = the_key and id = the_id);
  end if;
  if not is_free and not is_known and a.owner <> the_epoch then
    perform from ${newest('replica', 'mesh = a.mesh', 'epoch', 'a.owner')} o where a.now - beat <= a.lease;
    if not found then return null; end if;
  end if;
  if is_known or (letter = 't' and not is_free) then
    answer := 'applied ' || a.era || ' ' || a.base || e' -\\n';
    update @.replica set batch = number, fresh = 0, reply = answer where ctid = a.replica_at;
    return e'\\n' || answer;
  end if;
  if not is_free then
    answer := 'applied ' || a.era || ' ' || a.base || e' ~\\n';
    if not a.more then update @.chat set more = true where ctid = a.chat_at; end if;
    update @.mesh set last = a.base + 1 where ctid = a.mesh_at;
  else
    answer := 'applied ' || a.era || ' ' || a.base || e' +\\n';
    if a.chat_at is null then
      insert into @.chat (mesh, key, seq, owner, fence, era, batch, is_message, offered, more)
        values (a.mesh, the_key, a.base + 1, the_epoch, a.base + 2, a.era, number, is_text, false, false);
    else
      update @.chat set seq = a.base + 1, owner = the_epoch, fence = a.base + 2, era = a.era, batch = number,
        is_message = is_text, offered = false, more = false where ctid = a.chat_at;
    end if;
    update @.mesh set last = a.base + 2 where ctid = a.mesh_at;
  end if;
  if is_text or not is_free then
    insert into @.entry (mesh, key, seq, owner, batch, is_message, max_attempts, dedupe_ms, id, long_id, body)
      values (a.mesh, the_key, a.base + 1, the_epoch, number, is_text, coalesce(the_max, 0), coalesce(the_dedupe, 0), the_id,
        the_long_id, the_text);
  end if;
  update @.replica set batch = number, total = total + 1, fresh = 1, reply = answer where ctid = a.replica_at;
  return e'\\n' || answer;
end`,
  },
  {
    // Null where whoever comes next is not alive, or where a message is given back.
    signature: `@.give_one(a @.single, channels text, the_epoch bigint, number bigint, how text, the_key text)
  returns text`,
    body: `
declare
  e @.entry;
  has_more boolean;
  push text;
  the_id text;
  dedupe double precision;
  answer text;
begin
  if a.is_message and (how = 'b' or how = 'p') then return null; end if;
  if a.more then
    select seq, owner, batch, is_message,
        exists (select from @.entry b where b.mesh = a.mesh and b.key = the_key and b.seq > t.seq)
      into e.seq, e.owner, e.batch, e.is_message, has_more
      from @.entry t where mesh = a.mesh and key = the_key and seq > a.seq order by seq limit 1;
    if e.owner <> the_epoch then
      select json_build_array(instance, 'grant', e.owner, a.era, e.seq, a.base + 1, the_key)::text into push
        from ${newest('replica', 'mesh = a.mesh', 'epoch', 'e.owner')} o where not replaced;
      if not found then return null; end if;
      push := @.notify(channels, push);
    end if;
  end if;
  if a.is_message then
    delete from @.entry where mesh = a.mesh and key = the_key and seq = a.seq returning id, dedupe_ms into the_id, dedupe;
    if how = 'd' and the_id is not null then
      a.count := a.count + 1;
      insert into @.done (mesh, key, id, until, number) values (a.mesh, the_key, the_id, a.now + dedupe, a.count)
        on conflict (mesh, key, id) do update set until = excluded.until, number = excluded.number;
    end if;
  end if;
  answer := 'applied ' || a.era || ' ' || a.base || ' ' || (a.seq - a.base)
    || case when a.fence <> 0 and a.chat_era = a.era then ',' || (a.fence - a.base) else '' end || e'\\n'
    || case when e.owner = the_epoch then '[[' || json_build_array(the_key, e.seq, a.base + 1) || '],[],[]]' else '' end;
  if e.seq is null then
    update @.chat set seq = 0, owner = 0, more = false where ctid = a.chat_at;
    if a.is_message then update @.mesh set count = a.count where ctid = a.mesh_at; end if;
  else
    if not e.is_message then delete from @.entry where mesh = a.mesh and key = the_key and seq = e.seq; end if;
    update @.chat set seq = e.seq, owner = e.owner, batch = e.batch, is_message = e.is_message, more = has_more,
      fence = a.base + 1, era = a.era where ctid = a.chat_at;
    update @.mesh set last = a.base + 1, count = a.count where ctid = a.mesh_at;
  end if;
  update @.replica set batch = number, total = total - 1, fresh = 0, reply = answer where ctid = a.replica_at;
  return coalesce('[' || push || ']', '') || e'\\n' || answer;
end`,
  },
  {
    /*
     * Tells one replica, as part of the step: it is woken before the answer is under way. channels: what the names of
     * channels are made of, empty where all pushes go with the answer. Gives back the push where it was not sent.
     */
    signature: '@.notify(channels text, push text) returns text',
    body: `
declare
  payload text;
  sent text;
begin
  if channels = '' then return push; end if;
  payload := '[' || (push::jsonb - 0)::text || ']';
  if octet_length(payload) > 7900 or pg_notification_queue_usage() > 0.5 then return push; end if;
  sent := pg_notify('botmesh_'
    || left(encode(sha256(convert_to(channels || e'\\n' || (push::jsonb ->> 0), 'UTF8')), 'hex'), 40), payload);
  return null;
end`,
  },
];
