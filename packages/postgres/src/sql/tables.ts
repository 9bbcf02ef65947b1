/**
 * The tables of all meshes of a schema. One row for each chat that is or was busy lately, with the head of its queue: it
 * is updated in place and stays when the chat goes idle. What waits behind a head, and the text of a message, is a row
 * that is inserted and deleted, and updated only where something went wrong.
 */
export const TABLES = `
create function @.now_us() returns bigint language sql volatile parallel safe as
  'select pg_catalog.floor(extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint';

-- Batches of so few keys go key by key. With 0, a batch of one operation goes as all others do.
create function @.few() returns integer language sql immutable parallel safe as 'select 3';

-- From this place on an orphan is a suspect message.
create function @.first_suspect() returns bigint language sql immutable parallel safe as 'select 4503599627370496';

-- A part of the server's identity. What an unlogged table holds is gone when writes may have been lost: after a crash, and on a
-- standby that was promoted.
create unlogged table @.server (
  one boolean primary key default true check (one),
  id text not null
);

-- A shard of a mesh: its row is locked by each step.
create table @.mesh (
  id integer generated always as identity,
  namespace text collate "C" not null,
  shard integer not null,
  run text,
  era bigint not null default 0,
  quarantine double precision not null default 0,
  format double precision not null default 0,
  -- 0 before the first join.
  lease double precision not null default 0,
  shards double precision not null default 0,
  -- The last stamp; the last number of a finished id or of an orphan; the last one of a finished id that was forgotten.
  last bigint not null default 0,
  count bigint not null default 0,
  forgotten bigint not null default 0,
  -- The last key that was looked at for being long idle.
  swept text collate "C" not null default '',
  primary key (namespace, shard)
) with (fillfactor = 20);

-- A live epoch.
create table @.replica (
  mesh integer not null,
  epoch bigint not null,
  replica_id text not null,
  instance text not null,
  first_epoch bigint not null,
  proven boolean not null default false,
  replaced boolean not null default false,
  adopts boolean not null,
  beat bigint not null,
  beat_number bigint not null default 0,
  since bigint not null,
  batch bigint not null default 0,
  reply text,
  -- How many tickets it has, and how many of them its last batch brought.
  total bigint not null default 0,
  fresh bigint not null default 0,
  -- The key of the suspect message that it was handed last.
  trial text collate "C",
  primary key (mesh, epoch)
) with (fillfactor = 30);

create table @.note (
  mesh integer not null,
  epoch bigint not null,
  at bigint not null,
  key text not null,
  seq bigint not null,
  note text not null,
  primary key (mesh, epoch, at)
);

-- The head of each queue; seq is 0 where there is none.
create table @.chat (
  mesh integer not null,
  key text collate "C" not null,
  seq bigint not null,
  owner bigint not null,
  fence bigint not null,
  era bigint not null,
  batch bigint not null,
  is_message boolean not null,
  offered boolean not null,
  -- Whether anything may wait behind it.
  more boolean not null,
  -- Its place among those that nobody could take over yet; suspect messages have theirs from 2^52 on.
  orphan bigint,
  primary key (mesh, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2);
-- What they are made of changes only where something went wrong: all other updates stay within their page.
create index chat_orphan on @.chat (mesh, orphan) where orphan is not null;
create index chat_offered on @.chat (mesh, key) where offered;

-- All messages, also those at the head, and tickets that wait.
create table @.entry (
  mesh integer not null,
  key text collate "C" not null,
  seq bigint not null,
  owner bigint not null,
  batch bigint not null,
  is_message boolean not null,
  attempt bigint not null default 1,
  max_attempts double precision not null default 0,
  dedupe_ms double precision not null default 0,
  -- The id as it is compared, and as it is where it is too long for that.
  id text collate "C",
  long_id text,
  body text,
  error text,
  suspect boolean not null default false,
  primary key (mesh, key, seq)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
create unique index entry_id on @.entry (mesh, key, id) where id is not null;

-- Ids of finished messages.
create table @.done (
  mesh integer not null,
  key text collate "C" not null,
  id text collate "C" not null,
  until double precision not null,
  number bigint not null,
  primary key (mesh, key, id)
) with (autovacuum_vacuum_scale_factor = 0.05);
create unique index done_number on @.done (mesh, number);

create table @.parked (
  mesh integer not null,
  key text collate "C" not null,
  seq bigint not null,
  id text collate "C",
  long_id text,
  body text not null,
  attempts bigint not null,
  error text,
  primary key (mesh, key, seq)
);
create unique index parked_id on @.parked (mesh, key, id) where id is not null;

create table @.pace (
  mesh integer not null,
  name text collate "C" not null,
  until double precision not null,
  primary key (mesh, name)
) with (fillfactor = 50);

-- Keys that are too long for an index, by what stands for them everywhere else.
create table @.long_key (
  mesh integer not null,
  short text collate "C" not null,
  key text not null,
  used bigint not null,
  primary key (mesh, short)
) with (fillfactor = 50);
`;
