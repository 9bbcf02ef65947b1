/**
 * The step that runs a batch. What makes up nearly all of one, tickets and messages that come, go and are handed on among
 * replicas that are alive, is done in variables, with one statement for each table before and after. The first operation
 * that is anything else leaves itself and all that follow it to operations.ts, which goes row by row.
 */
import type { SqlFunction } from './functions.js';
import { atNewest, newest } from './newest.js';

/** The head of one key of a batch, and what is known of its queue: all that the batch can come to. */
export const LINE_TYPE = `
create type @.line as (
  key text,
  -- Where its row is; null where there is none.
  at tid,
  seq bigint,
  owner bigint,
  fence bigint,
  era bigint,
  batch bigint,
  is_message boolean,
  offered boolean,
  more boolean,
  is_changed boolean,
  -- What waits, and the place in these lists of who is next.
  seqs bigint[],
  owners bigint[],
  batches bigint[],
  are_messages boolean[],
  next integer
);
`;

const replicaOf = (epoch: string): string => newest('replica', 'mesh = s.mesh', 'epoch', epoch);
const MINE = atNewest('replica', 'mesh = s.mesh', 'epoch', 's.me');

export const APPLY: readonly SqlFunction[] = [
  {
    /*
     * letters: for each operation r reserve, t try, a accept with an id, m accept without one; d, b, l, p, w release as done,
     * back, lost, passed on and withdrawn, in capitals with a reason or more to finish; n tell, y replay, x drop. at: the number
     * of its key in keys. needs: how many tickets of that key are released. The rest is null where no operation needs it.
     */
    signature: `@.step_apply(the_namespace text, the_shard integer, sync text, lock_ms text, channels text,
  the_epoch bigint, the_instance text, number bigint, letters text, at integer[], keys text[], needs integer[], seqs bigint[], ids text[],
  long_ids text[], texts text[], maxes double precision[], dedupes double precision[], also text[]) returns text`,
    isStep: true,
    body: `
declare
  s @.step;
  me @.replica;
  got record;
  refusal text;
  base bigint;
  told bigint;
  results text := '';
  the_reply text;
  push text;
  op integer := 1;
  count integer := length(letters);
  letter text;
  marks text := '';
  lines @.line[];
  l @.line;
  at_line integer;
  is_small boolean;
  -- The replica that was last asked for.
  other @.replica;
  next_owner bigint;
  took_seqs bigint[];
  gone_at integer[];
  gone_seqs bigint[];
  gone_done boolean[];
  has_queued boolean := false;
  has_new boolean := false;
  total_change bigint := 0;
  fresh_now bigint := 0;
  finished integer;
begin
  s := @.begin_step(the_namespace, the_shard, sync, lock_ms);
  got := @.admit(s, the_epoch, the_instance);
  s := got.s;
  me := got.me;
  refusal := got.refusal;
  if refusal is not null then
    perform @.finish_step(s);
    return @.reply(s, refusal);
  end if;
  if not me.proven then s := @.prove(s, me); end if;
  if number <= me.batch then
    -- R7: the same number again gets the same answer again, an older one does nothing.
    perform @.finish_step(s);
    return @.reply(s, case when number = me.batch then coalesce(me.reply, 'stale') else 'stale' end);
  end if;
  s.batch := number;
  base := greatest(s.last, s.clock - 1);
  told := base;

  if s.quarantine = 0 and strpos(letters, 'a') > 0 then marks := @.marks(s, letters, at, keys, seqs, ids); end if;
  -- One with a suspect message has another to be handed when that ends: the rules' business.
  if s.quarantine = 0 and marks is not null and me.trial is null and strpos('rtamdbpw', left(letters, 1)) > 0 then
    is_small := cardinality(keys) <= @.few();
    if is_small then
      for at_line in 1 .. cardinality(keys) loop lines[at_line] := @.line(s, keys[at_line], needs[at_line]); end loop;
    else
      lines := @.lines(s, keys, needs);
    end if;
    while op <= count loop
      letter := substr(letters, op, 1);
      at_line := at[op];
      l := lines[at_line];

      if strpos('rtam', letter) > 0 then
        if letter = 'a' and substr(marks, op, 1) = 'd' then
          results := results || ' -';
        elsif l.seq = 0 then
          l.seq := greatest(s.last + 1, s.clock);
          s.last := l.seq + 1;
          l.owner := s.me;
          l.fence := s.last;
          l.era := s.era;
          l.batch := number;
          l.is_message := letter = 'a' or letter = 'm';
          l.offered := false;
          l.more := false;
          l.is_changed := true;
          if l.seq = told + 1 then
            results := results || ' +';
            told := s.last;
          else
            results := results || ' ' || (l.seq - base) || ',' || (s.last - base);
          end if;
          if l.at is null then has_new := true; end if;
          lines[at_line] := l;
          total_change := total_change + 1;
          fresh_now := fresh_now + 1;
          if l.is_message then
            if took_seqs is null then took_seqs := array_fill(null::bigint, array[count]); end if;
            took_seqs[op] := l.seq;
          end if;
        else
          if l.owner <> s.me then
            if other.epoch is distinct from l.owner then select * into other from ${replicaOf('l.owner')} r; end if;
            -- The owner has to be alive, and nobody to be buried.
            exit when other.epoch is null or s.now - other.beat > s.lease;
          end if;
          if letter = 't' then
            results := results || ' -';
          else
            s.last := greatest(s.last + 1, s.clock);
            l.seqs := l.seqs || s.last;
            l.owners := l.owners || s.me;
            l.batches := l.batches || number;
            l.are_messages := l.are_messages || (letter <> 'r');
            l.is_changed := l.is_changed or not l.more;
            l.more := true;
            if s.last = told + 1 then
              results := results || ' ~';
              told := s.last;
            else
              results := results || ' ' || (s.last - base);
            end if;
            lines[at_line] := l;
            total_change := total_change + 1;
            fresh_now := fresh_now + 1;
            if letter = 'r' then has_queued := true;
            else
              if took_seqs is null then took_seqs := array_fill(null::bigint, array[count]); end if;
              took_seqs[op] := s.last;
            end if;
          end if;
        end if;

      elsif strpos('dwbp', letter) > 0 then
        if l.seq = 0 then
          results := results || ' -';
        else
          -- Offered before, a message to be handed on, or no head of the caller's.
          exit when l.seq <> seqs[op] or l.owner <> s.me or l.offered or (l.is_message and (letter = 'b' or letter = 'p'));
          if l.more and l.next <= cardinality(l.seqs) then
            next_owner := l.owners[l.next];
            if next_owner <> s.me then
              if other.epoch is distinct from next_owner then
                select * into other from ${replicaOf('next_owner')} r;
              end if;
              -- Who is next has to be alive.
              exit when other.epoch is null or other.replaced;
            end if;
          else
            next_owner := 0;
          end if;
          results := results || ' ' || (l.seq - base);
          if l.fence <> 0 and l.era = s.era then results := results || ',' || (l.fence - base); end if;
          total_change := total_change - 1;
          if l.batch = number then fresh_now := fresh_now - 1; end if;
          if l.is_message then
            gone_at := gone_at || at_line;
            gone_seqs := gone_seqs || l.seq;
            gone_done := gone_done || (letter = 'd');
          end if;
          if next_owner = 0 then
            l.seq := 0;
            l.owner := 0;
            l.more := false;
          else
            l.seq := l.seqs[l.next];
            l.owner := next_owner;
            l.batch := l.batches[l.next];
            l.is_message := l.are_messages[l.next];
            l.next := l.next + 1;
            l.more := l.next <= cardinality(l.seqs);
            s.last := greatest(s.last + 1, s.clock);
            l.fence := s.last;
            l.era := s.era;
            if not l.is_message and l.seq <= base then
              gone_at := gone_at || at_line;
              gone_seqs := gone_seqs || l.seq;
              gone_done := gone_done || false;
            end if;
            if next_owner = s.me then
              s.grants := s.grants || json_build_array(l.key, l.seq, l.fence)::text;
            else
              s.pushes := s.pushes
                || json_build_array(other.instance, 'grant', next_owner, s.era, l.seq, l.fence, l.key)::text;
            end if;
          end if;
          l.is_changed := true;
          lines[at_line] := l;
        end if;
      else
        exit;
      end if;
      op := op + 1;
    end loop;

    if gone_seqs is not null then
      with gone as (
        delete from @.entry e using unnest(gone_at, gone_seqs, gone_done) with ordinality g(at, seq, is_done, place)
        where e.mesh = s.mesh and e.key = keys[g.at] and e.seq = g.seq
        returning e.key, e.id, e.dedupe_ms, g.is_done, g.place
      )
      insert into @.done (mesh, key, id, until, number)
        select s.mesh, g.key, g.id, s.wall + g.dedupe_ms, s.count + row_number() over (order by g.place)
        from gone g where g.is_done and g.id is not null
        on conflict (mesh, key, id) do update set until = excluded.until, number = excluded.number;
      get diagnostics finished = row_count;
      s.count := s.count + finished;
    end if;
    if took_seqs is not null then
      if strpos(marks, 'x') > 0 then
        delete from @.done d using unnest(at, ids, took_seqs) u(at, id, seq)
          where u.seq is not null and u.id is not null and d.mesh = s.mesh and d.key = keys[u.at] and d.id = u.id;
      end if;
      insert into @.entry (mesh, key, seq, owner, batch, is_message, max_attempts, dedupe_ms, id, long_id, body)
        select s.mesh, keys[u.at], u.seq, s.me, number, true, u.max, u.dedupe, u.id, u.long_id, u.body
        from unnest(at, took_seqs, maxes, dedupes, ids, long_ids, texts) u(at, seq, max, dedupe, id, long_id, body)
        where u.seq is not null;
    end if;
    if has_queued then
      insert into @.entry (mesh, key, seq, owner, batch, is_message)
        select s.mesh, u.key, q.seq, s.me, number, false
        from unnest(lines) u cross join lateral unnest(u.seqs, u.are_messages) with ordinality q(seq, is_message, place)
        where q.place >= u.next and q.seq > base and not q.is_message;
    end if;
    if is_small then
      foreach l in array lines loop
        continue when not l.is_changed;
        if l.at is not null then
          update @.chat set seq = l.seq, owner = l.owner, fence = l.fence, era = l.era, batch = l.batch,
            is_message = l.is_message, offered = l.offered, more = l.more where ctid = l.at;
        else
          insert into @.chat (mesh, key, seq, owner, fence, era, batch, is_message, offered, more)
            values (s.mesh, l.key, l.seq, l.owner, l.fence, l.era, l.batch, l.is_message, false, l.more);
        end if;
      end loop;
    else
      update @.chat c set seq = u.seq, owner = u.owner, fence = u.fence, era = u.era, batch = u.batch,
          is_message = u.is_message, offered = u.offered, more = u.more
        from unnest(lines) u where u.is_changed and c.ctid = u.at;
      if has_new then
        insert into @.chat (mesh, key, seq, owner, fence, era, batch, is_message, offered, more)
          select s.mesh, u.key, u.seq, u.owner, u.fence, u.era, u.batch, u.is_message, false, u.more
          from unnest(lines) u where u.is_changed and u.at is null;
      end if;
    end if;
  end if;

  if op <= count then
    update @.replica set batch = number, total = total + total_change, fresh = fresh_now where ${MINE};
    while op <= count loop
      s.taken_seq := 0;
      s.taken_fence := 0;
      s := @.run_op(s, substr(letters, op, 1), keys[at[op]], seqs[op], ids[op], long_ids[op], texts[op], maxes[op],
        dedupes[op], also[op]::bigint[]);
      results := results || case when s.taken_seq = 0 then ' -' when s.taken_fence = 0 then ' ' || (s.taken_seq - base)
        else ' ' || (s.taken_seq - base) || ',' || (s.taken_fence - base) end;
      op := op + 1;
    end loop;
    total_change := null;
  end if;
  the_reply := 'applied ' || s.era || ' ' || base || results || e'\\n' || @.news(s);
  if total_change is null then
    update @.replica set reply = the_reply where ${MINE};
  else
    update @.replica set batch = number, total = total + total_change, fresh = fresh_now, reply = the_reply
      where ${MINE};
  end if;
  perform @.finish_step(s);
  if cardinality(s.pushes) = 1 then
    push := @.notify(channels, s.pushes[1]);
    s.pushes := case when push is not null then array[push] end;
  end if;
  return @.reply(s, the_reply);
end`,
  },
  {
    // For batches of few keys: each statement is found faster than one for all of them is begun.
    signature: '@.line(s @.step, the_key text, need integer) returns @.line',
    body: `
declare
  e @.entry;
  l @.line;
begin
  select the_key, c.at, coalesce(c.seq, 0), c.owner, c.fence, c.era, c.batch, c.is_message, coalesce(c.offered, false),
      coalesce(c.more, false), false, null, null, null, null, 1 into l
    from (select) one left join lateral ${newest('chat', 'mesh = s.mesh', 'key', 'the_key')} c on true;
  if l.more and need > 0 then
    for e in select * from @.entry where mesh = s.mesh and key = the_key and seq > l.seq order by seq limit need + 1 loop
      l.seqs := l.seqs || e.seq;
      l.owners := l.owners || e.owner;
      l.batches := l.batches || e.batch;
      l.are_messages := l.are_messages || e.is_message;
    end loop;
  end if;
  return l;
end`,
  },
  {
    signature: '@.lines(s @.step, keys text[], needs integer[]) returns @.line[]',
    body: `
begin
  return (
    select array_agg((u.key, c.at, coalesce(c.seq, 0), coalesce(c.owner, 0), coalesce(c.fence, 0), coalesce(c.era, 0),
      coalesce(c.batch, 0), coalesce(c.is_message, false), coalesce(c.offered, false), coalesce(c.more, false),
      false, q.seqs, q.owners, q.batches, q.are_messages, 1)::@.line order by u.place)
    from unnest(keys, needs) with ordinality u(key, need, place)
      left join lateral ${newest('chat', 'mesh = s.mesh', 'key', 'u.key')} c on true
      left join lateral (
        select array_agg(w.seq order by w.seq) seqs, array_agg(w.owner order by w.seq) owners,
          array_agg(w.batch order by w.seq) batches, array_agg(w.is_message order by w.seq) are_messages
        from (
          select e.seq, e.owner, e.batch, e.is_message from @.entry e
          where e.mesh = s.mesh and e.key = u.key and e.seq > c.seq order by e.seq limit u.need + 1
        ) w
      ) q on c.more and u.need > 0
  );
end`,
  },
  {
    /*
     * For each operation whether the id it brings is new: n new, d not, x new because its time is over. Null where a message
     * of that id may be finished in the same batch.
     */
    signature: '@.marks(s @.step, letters text, at integer[], keys text[], seqs bigint[], ids text[]) returns text',
    body: `
begin
  return (
    select case when not bool_or(coalesce(e.seq = any (seqs), false)) then string_agg(
      case when u.id is null or u.letter <> 'a' then ' '
        when e.seq is not null or p.seq is not null or d.until > s.wall or u.repeated > 1 then 'd'
        when d.until is not null then 'x' else 'n' end, '' order by u.place) end
    from (
      select r.*, row_number() over (partition by r.at, r.letter, r.id order by r.place) as repeated
      from unnest(at, ids, string_to_array(letters, null)) with ordinality r(at, id, letter, place)
    ) u
      left join lateral (
        select t.seq from @.entry t where t.mesh = s.mesh and t.key = keys[u.at] and t.id = u.id and u.letter = 'a' offset 0
      ) e on true
      left join lateral (
        select t.seq from @.parked t where t.mesh = s.mesh and t.key = keys[u.at] and t.id = u.id and u.letter = 'a' offset 0
      ) p on true
      left join lateral (
        select t.until from @.done t where t.mesh = s.mesh and t.key = keys[u.at] and t.id = u.id and u.letter = 'a' offset 0
      ) d on true
  );
end`,
  },
  {
    signature: `@.run_op(s @.step, letter text, the_key text, the_seq bigint, the_id text, the_long_id text, the_text text,
  the_max double precision, the_dedupe double precision, also bigint[]) returns @.step`,
    body: `
begin
  case letter
    when 'r' then return @.enqueue(s, @.plain(the_key));
    when 't' then return @.try_take(s, the_key);
    when 'a', 'm' then return @.accept(s, the_key, the_id, the_long_id, the_text, the_max, the_dedupe);
    when 'n' then return @.tell(s, the_key, the_text);
    when 'y' then return @.replay(s, the_key, the_seq, the_max, the_dedupe);
    when 'x' then return @.drop_parked(s, the_key, the_seq);
    else return @.release(s, the_key, the_seq, lower(letter), the_text, also);
  end case;
end`,
  },
];
