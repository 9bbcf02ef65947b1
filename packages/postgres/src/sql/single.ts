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
  chat_at tid,
  now double precision,
  era bigint,
  count bigint,
  base bigint,
  -- The head; 0 where there is none. Who comes next, and its instance where that is another replica.
  seq bigint,
  fence bigint,
  chat_era bigint,
  is_message boolean,
  more boolean,
  next_seq bigint,
  next_owner bigint,
  next_batch bigint,
  next_is_message boolean,
  next_more boolean,
  next_instance text
);
`;

const MESH = `(
  select m.*, u.us / 1000 as now
  from ${newest('mesh', 'namespace = the_namespace', 'shard', 'the_shard')} m cross join (select @.now_us() as us offset 0) u
)`;
const ME = newest('replica', 'mesh = m.id', 'epoch', 'the_epoch');
const HEAD = newest('chat', 'mesh = m.id', 'key', 'the_key');

/** Nothing of what step_apply finds out before it looks at its operations is the matter. */
const IS_PLAIN = `m.quarantine = 0 and m.run = (select v.id || ' ' || v.xmin::text from @.server v)
  and abs(m.now) <= 4503599627370 and r.instance = the_instance and r.proven and not r.replaced and r.batch < number`;

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
  answer text;
  setting text;
begin
  setting := @.lock_step(the_namespace, the_shard, sync, lock_ms);
  if strpos('rtam', letter) > 0 then
    a := @.before_taking(the_namespace, the_shard, the_epoch, the_instance, number, the_key);
    if a.mesh is not null then
      answer := @.take_one(a, the_epoch, number, letter, the_key, the_id, the_long_id, the_text, the_max, the_dedupe);
    end if;
  else
    a := @.before_giving(the_namespace, the_shard, the_epoch, the_instance, number, the_key, the_seq);
    if a.mesh is not null and not (a.is_message and strpos('bp', letter) > 0) then
      answer := @.give_one(a, channels, the_epoch, number, letter = 'd', the_key);
    end if;
  end if;
  if answer is not null then return answer; end if;
  return @.step_apply(the_namespace, the_shard, sync, lock_ms, channels, the_epoch, the_instance, number, letter, '{1}',
    array[the_key], array[(strpos('dbpw', letter) > 0)::integer], array[the_seq], array[the_id], array[the_long_id],
    array[the_text], array[the_max], array[the_dedupe], array[null::text]);
end`,
  },
  {
    // Null unless the caller may act, and whoever has the head is alive.
    signature: `@.before_taking(the_namespace text, the_shard integer, the_epoch bigint, the_instance text, number bigint,
  the_key text) returns @.single`,
    body: `
declare
  a @.single;
begin
  select m.id, m.at, r.at, c.at, m.now, m.era, m.count, greatest(m.last, m.now * 1000 - 1), coalesce(c.seq, 0), 0, 0, false, c.more
    into a
    from ${MESH} m join lateral ${ME} r on true left join lateral ${HEAD} c on true
      left join lateral ${newest('replica', 'mesh = m.id', 'epoch', 'c.owner')} o on c.seq <> 0 and c.owner <> the_epoch
    where @.few() > 0 and ${IS_PLAIN}
      and (c.seq is null or c.seq = 0 or c.owner = the_epoch or m.now - o.beat <= m.lease);
  return a;
end`,
  },
  {
    // Null unless the caller may act and holds the head, and whoever comes next is alive.
    signature: `@.before_giving(the_namespace text, the_shard integer, the_epoch bigint, the_instance text, number bigint,
  the_key text, the_seq bigint) returns @.single`,
    body: `
declare
  a @.single;
begin
  select m.id, m.at, r.at, c.at, m.now, m.era, m.count, greatest(m.last, m.now * 1000 - 1), c.seq, c.fence, c.era, c.is_message, c.more,
      e.seq, e.owner, e.batch, e.is_message,
      exists (select from @.entry t where t.mesh = m.id and t.key = the_key and t.seq > e.seq), o.instance
    into a
    from ${MESH} m join lateral ${ME} r on true join lateral ${HEAD} c on true
      left join lateral (
        select * from @.entry t where t.mesh = m.id and t.key = the_key and t.seq > c.seq order by t.seq limit 1
      ) e on c.more
      left join lateral ${newest('replica', 'mesh = m.id', 'epoch', 'e.owner')} o on e.owner <> the_epoch
    where @.few() > 0 and ${IS_PLAIN} and c.seq = the_seq and c.owner = the_epoch and not c.offered
      and (e.seq is null or e.owner = the_epoch or not o.replaced);
  return a;
end`,
  },
  {
    signature: `@.take_one(a @.single, the_epoch bigint, number bigint, letter text, the_key text, the_id text,
  the_long_id text, the_text text, the_max double precision, the_dedupe double precision) returns text`,
    body: `
declare
  is_known boolean := false;
  is_text boolean := letter = 'a' or letter = 'm';
  answer text;
begin
  if letter = 'a' then
    delete from @.done where mesh = a.mesh and key = the_key and id = the_id and until <= a.now;
    is_known := exists (select from @.entry where mesh = a.mesh and key = the_key and id = the_id)
      or exists (select from @.parked where mesh = a.mesh and key = the_key and id = the_id)
      or exists (select from @.done where mesh = a.mesh and key = the_key and id = the_id);
  end if;
  if is_known or (letter = 't' and a.seq <> 0) then
    answer := 'applied ' || a.era || ' ' || a.base || e' -\\n';
    update @.replica set batch = number, fresh = 0, reply = answer where ctid = a.replica_at;
    return e'\\n' || answer;
  end if;
  if a.seq <> 0 then
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
  if is_text or a.seq <> 0 then
    insert into @.entry (mesh, key, seq, owner, batch, is_message, max_attempts, dedupe_ms, id, long_id, body)
      values (a.mesh, the_key, a.base + 1, the_epoch, number, is_text, coalesce(the_max, 0), coalesce(the_dedupe, 0), the_id,
        the_long_id, the_text);
  end if;
  update @.replica set batch = number, total = total + 1, fresh = 1, reply = answer where ctid = a.replica_at;
  return e'\\n' || answer;
end`,
  },
  {
    signature: `@.give_one(a @.single, channels text, the_epoch bigint, number bigint, is_done boolean, the_key text)
  returns text`,
    body: `
declare
  answer text;
  push text;
  the_id text;
  dedupe double precision;
begin
  if a.is_message then
    delete from @.entry where mesh = a.mesh and key = the_key and seq = a.seq returning id, dedupe_ms into the_id, dedupe;
    if is_done and the_id is not null then
      a.count := a.count + 1;
      insert into @.done (mesh, key, id, until, number) values (a.mesh, the_key, the_id, a.now + dedupe, a.count)
        on conflict (mesh, key, id) do update set until = excluded.until, number = excluded.number;
    end if;
  end if;
  answer := 'applied ' || a.era || ' ' || a.base || ' ' || (a.seq - a.base)
    || case when a.fence <> 0 and a.chat_era = a.era then ',' || (a.fence - a.base) else '' end || e'\\n';
  if a.next_seq is null then
    update @.chat set seq = 0, owner = 0, more = false where ctid = a.chat_at;
    if a.is_message then update @.mesh set count = a.count where ctid = a.mesh_at; end if;
  else
    if not a.next_is_message then delete from @.entry where mesh = a.mesh and key = the_key and seq = a.next_seq; end if;
    update @.chat set seq = a.next_seq, owner = a.next_owner, batch = a.next_batch, is_message = a.next_is_message,
      more = a.next_more, fence = a.base + 1, era = a.era where ctid = a.chat_at;
    update @.mesh set last = a.base + 1, count = a.count where ctid = a.mesh_at;
    if a.next_owner = the_epoch then
      answer := answer || '[[' || json_build_array(the_key, a.next_seq, a.base + 1) || '],[],[]]';
    else
      push := @.notify(channels,
        json_build_array(a.next_instance, 'grant', a.next_owner, a.era, a.next_seq, a.base + 1, the_key)::text);
    end if;
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
