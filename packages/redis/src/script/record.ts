/**
 * The first part of the steps' script: the moment, and the record as one step sees it. Parts are read when the step asks
 * for them; what it changed is written by `flush`, at its end.
 *
 * The keys of a shard, all in one slot:
 *
 *   mesh     hash  `#` the era and configuration; `@` the counters; for each epoch `r…` its row and `b…` its batch
 *   answers  hash  epoch → the answer to its last batch
 *   heads    hash  key → the head of its queue
 *   waiting  zset  everything behind a head, in lexicographic order of key and seq
 *   ids      hash  key and id → nothing while that message is here; until when, once it is finished
 *   finished list  the ids of finished messages, in order of finishing
 *   orphans  zset  keys whose head nobody could take over yet
 *   offers   hash  key → the epoch that was handed its head unasked and has not listed it yet
 *   bodies   hash  seq → the body of that message
 *   parked   hash  seq → a parked message
 *   notes    hash  epoch → what was told to its turns
 *   paces    zset  shared paces, by the time up to which their slots are taken
 *
 * Numbers are stored as doubles with the greatest byte first, which sort as the numbers do.
 */
export const RECORD = String.raw`
local MESH, ANSWERS, NOTES, HEADS, WAITING, BODIES, IDS, FINISHED, ORPHANS, OFFERS, PARKED, PACES = unpack(KEYS)
local call, pack, unpackAs = redis.call, struct.pack, struct.unpack
local sub, format, floor, sort = string.sub, string.format, math.floor, table.sort

local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)

local function digits(number) return format('%.0f', number) end
local function double(number) return pack('>d', number) end

-- ── The mesh ─────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Of one life of the data; leaseMs is 0 before the first join.
local era, quarantineMs, formatNumber, leaseMs, shards, run = 0, 0, 0, 0, 0, false
local isMeshChanged = false
-- The last stamp given; the last number given to a finished or orphaned one; how many finished ids are remembered.
local last, count, remembered = 0, 0, 0
local lastBefore, countBefore, rememberedBefore

local function readMesh(mesh, counters)
  if mesh then
    local at
    era, quarantineMs, formatNumber, leaseMs, shards, at = unpackAs('>ddddd', mesh)
    run = sub(mesh, at)
  end
  if counters then last, count, remembered = unpackAs('>ddd', counters) end
  lastBefore, countBefore, rememberedBefore = last, count, remembered
end

-- ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- By epoch; false where there is none. How many tickets a row has, and how many of them its last batch brought, is
-- counted in it: no list of tickets is kept.
local rows, areAllRead = {}, false
local changedRows, changedBatches = {}, {}

local function readRow(epoch, raw, batch)
  if not raw then
    rows[epoch] = false
    return false
  end
  local row = { epoch = epoch, batch = 0, total = 0, fresh = 0 }
  local proven, replaced, adopts, at
  proven, replaced, adopts, row.first, row.beat, row.beatNumber, row.since, row.instance, at =
    unpackAs('>BBBddddI4c0', raw)
  row.proven, row.replaced, row.adopts = proven == 1, replaced == 1, adopts == 1
  row.replicaId = sub(raw, at)
  if batch then row.batch, row.total, row.fresh = unpackAs('>ddd', batch) end
  rows[epoch] = row
  return row
end

local function bit01(is) return is and 1 or 0 end

local function packRow(row)
  return pack('>BBBddddI4c0', bit01(row.proven), bit01(row.replaced), bit01(row.adopts), row.first, row.beat,
    row.beatNumber, row.since, #row.instance, row.instance) .. row.replicaId
end

local function rowOf(epoch)
  if epoch == 0 then return false end
  local row = rows[epoch]
  if row ~= nil or areAllRead then return row end
  local name = digits(epoch)
  local got = call('HMGET', MESH, 'r' .. name, 'b' .. name)
  return readRow(epoch, got[1], got[2])
end

-- All live rows, oldest first.
local function liveRows()
  if not areAllRead then
    local all, raws = call('HGETALL', MESH), {}
    for at = 1, #all, 2 do raws[all[at]] = all[at + 1] end
    for name, raw in pairs(raws) do
      if sub(name, 1, 1) == 'r' then
        local epoch = tonumber(sub(name, 2))
        if rows[epoch] == nil then readRow(epoch, raw, raws['b' .. sub(name, 2)]) end
      end
    end
    areAllRead = true
  end
  local live = {}
  for _, row in pairs(rows) do
    if row then live[#live + 1] = row end
  end
  sort(live, function(a, b) return a.epoch < b.epoch end)
  return live
end

-- ── Entries ──────────────────────────────────────────────────────────────────────────────────────────────────────────

local heads, raws, changedHeads = {}, {}, {}
-- What was queued behind a head in this step: by key in order, and by seq.
local queued, queuedBySeq = {}, {}
local newBodies, goneBodies = {}, {}

-- Flags of an entry.
local MORE, OFFERED, MESSAGE, ID, ERROR = 1, 2, 4, 8, 16

local function flagsOf(entry)
  return (entry.more and MORE or 0) + (entry.offered and OFFERED or 0) + (entry.isMessage and MESSAGE or 0)
    + (entry.id and ID or 0) + (entry.error and ERROR or 0)
end

local function readMessage(entry, flags, raw, at)
  if flags < MESSAGE then return entry end
  entry.isMessage = true
  entry.attempt, entry.maxAttempts, entry.dedupeMs, at = unpackAs('>ddd', raw, at)
  if flags % (2 * ID) >= ID then entry.id, at = unpackAs('>I4c0', raw, at) end
  if flags >= ERROR then entry.error = sub(raw, at) end
  return entry
end

local function packMessage(entry)
  if not entry.isMessage then return '' end
  local text = pack('>ddd', entry.attempt, entry.maxAttempts, entry.dedupeMs)
  if entry.id then text = text .. pack('>I4', #entry.id) .. entry.id end
  return text .. (entry.error or '')
end

local function readHead(key, raw)
  local flags, seq, owner, fence, givenIn, batch, at = unpackAs('>Bddddd', raw)
  local entry = { key = key, seq = seq, owner = owner, fence = fence, era = givenIn, batch = batch }
  if flags == 0 then return entry end
  entry.more = flags % 2 == 1
  entry.offered = flags % 4 >= OFFERED
  entry.isOrphan = owner == 0
  return readMessage(entry, flags, raw, at)
end

local function packHead(entry)
  return pack('>Bddddd', flagsOf(entry), entry.seq, entry.owner, entry.fence, entry.era, entry.batch)
    .. packMessage(entry)
end

-- No key's prefix is the beginning of another's.
local function prefixOf(key) return #key .. ':' .. key end

local function readWaiting(key, member, at)
  local seq, owner, batch, flags, rest = unpackAs('>dddB', member, at)
  local entry = { key = key, seq = seq, owner = owner, fence = 0, era = 0, batch = batch, member = member }
  return readMessage(entry, flags, member, rest)
end

local function packWaiting(entry)
  return prefixOf(entry.key) .. pack('>dddB', entry.seq, entry.owner, entry.batch, flagsOf(entry))
    .. packMessage(entry)
end

local function headOf(key)
  local head = heads[key]
  if head ~= nil then return head end
  local raw = raws[key]
  if raw == nil then raw = call('HGET', HEADS, key) end
  head = raw and readHead(key, raw)
  heads[key] = head
  return head
end

-- Reads the heads of many keys at once.
local function expectHeads(from, to)
  for start = from, to, 4000 do
    local stop = start + 3999
    if stop > to then stop = to end
    local found = call('HMGET', HEADS, unpack(ARGV, start, stop))
    for at = start, stop do raws[ARGV[at]] = found[at - start + 1] end
  end
end

local function setHead(key, entry)
  heads[key] = entry
  changedHeads[key] = true
end

local function queue(head, entry)
  local key = entry.key
  local list = queued[key]
  if list == nil then
    list = { first = 1 }
    queued[key] = list
  end
  list[#list + 1] = entry
  entry.isQueued = true
  queuedBySeq[entry.seq] = entry
  if not head.more then
    head.more = true
    changedHeads[key] = true
  end
end

-- The first entry of key that was queued in this step and is still there.
local function firstQueued(key)
  local list = queued[key]
  if list == nil then return nil end
  while list[list.first] and not list[list.first].isQueued do list.first = list.first + 1 end
  return list[list.first]
end

-- Takes the head away; the next in line, or false, is the head then.
local function shift(head)
  local key, nextEntry = head.key, nil
  if head.more then
    local prefix = prefixOf(key)
    local found = call('ZRANGEBYLEX', WAITING, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 2)
    if found[1] then
      call('ZREM', WAITING, found[1])
      nextEntry = readWaiting(key, found[1], #prefix + 1)
      nextEntry.member = nil
      nextEntry.more = found[2] ~= nil or firstQueued(key) ~= nil
    else
      nextEntry = firstQueued(key)
      if nextEntry then
        nextEntry.isQueued = false
        nextEntry.more = firstQueued(key) ~= nil
      end
    end
  end
  setHead(key, nextEntry or false)
  return nextEntry or false
end

-- The entry seq of key behind its head.
local function findWaiting(head, seq)
  if not head.more then return nil end
  local entry = queuedBySeq[seq]
  if entry then return entry.isQueued and entry.key == head.key and entry or nil end
  local prefix = prefixOf(head.key)
  local from = prefix .. double(seq)
  local member = call('ZRANGEBYLEX', WAITING, '[' .. from, '(' .. from .. '\255', 'LIMIT', 0, 1)[1]
  return member and readWaiting(head.key, member, #prefix + 1)
end

local function removeWaiting(entry)
  if entry.isQueued then entry.isQueued = false
  else call('ZREM', WAITING, entry.member) end
end

-- A waiting entry has changed.
local function rewrite(entry)
  if entry.isQueued then return end
  call('ZREM', WAITING, entry.member)
  entry.member = packWaiting(entry)
  call('ZADD', WAITING, 0, entry.member)
end

local function bySeq(a, b) return a.seq < b.seq end

-- The heads of an epoch, in the order of their places. Reads all heads there are: for deaths, and for what is rare.
local function headsOf(epoch)
  local found, mark = {}, double(epoch)
  for _, head in pairs(heads) do
    if head and head.owner == epoch then found[#found + 1] = head end
  end
  local cursor = '0'
  repeat
    local page = call('HSCAN', HEADS, cursor, 'COUNT', 512)
    cursor = page[1]
    local list = page[2]
    for at = 1, #list, 2 do
      local key, raw = list[at], list[at + 1]
      if heads[key] == nil and sub(raw, 10, 17) == mark then
        heads[key] = readHead(key, raw)
        found[#found + 1] = heads[key]
      end
    end
  until cursor == '0'
  sort(found, bySeq)
  return found
end

-- Adds the waiting entries of an epoch to found. Reads all that wait.
local function addWaitingOf(epoch, found)
  local from = 0
  repeat
    local page = call('ZRANGE', WAITING, from, from + 511)
    for _, member in ipairs(page) do
      local _, colon, length = string.find(member, '^(%d+):')
      local at = colon + tonumber(length) + 1
      local entry = readWaiting(sub(member, colon + 1, at - 1), member, at)
      if entry.owner == epoch then found[#found + 1] = entry end
    end
    from = from + 512
  until #page < 512
end

-- ── Ids ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

-- Nothing for a message that is here, until when and its number for a finished one; false where there is none.
local ids, changedIds, newlyFinished = {}, {}, {}

local function nameOf(key, id) return prefixOf(key) .. id end

local function idOf(name)
  local found = ids[name]
  if found == nil then
    found = call('HGET', IDS, name)
    ids[name] = found
  end
  return found
end

local function setId(name, value)
  ids[name] = value
  changedIds[name] = true
end

-- ── Notes ────────────────────────────────────────────────────────────────────────────────────────────────────────────

local notes, changedNotes = {}, {}

local function notesOf(epoch)
  local list = notes[epoch]
  if list == nil then
    local raw = call('HGET', NOTES, digits(epoch))
    list = raw and cmsgpack.unpack(raw) or {}
    notes[epoch] = list
  end
  return list
end

local function setNotes(epoch, list)
  notes[epoch] = list
  changedNotes[epoch] = true
end

-- ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

local function callMany(command, key, list)
  for from = 1, #list, 4000 do
    local to = from + 3999
    if to > #list then to = #list end
    call(command, key, unpack(list, from, to))
  end
end

-- Writes changed: pairs of a field and whether it changed, of which valueOf gives the values; false is deleted.
local function writeFields(key, changed, valueOf)
  local set, gone = {}, {}
  for name in pairs(changed) do
    local value = valueOf(name)
    if value then
      set[#set + 1] = name
      set[#set + 1] = value
    else
      gone[#gone + 1] = name
    end
  end
  callMany('HSET', key, set)
  callMany('HDEL', key, gone)
end

local function flushQueued()
  local members = {}
  for key in pairs(queued) do
    local entry = firstQueued(key)
    local list = queued[key]
    for at = list.first, #list do
      entry = list[at]
      if entry.isQueued then
        members[#members + 1] = 0
        members[#members + 1] = packWaiting(entry)
      end
    end
  end
  callMany('ZADD', WAITING, members)
end

local function flushMesh()
  local set, gone = {}, {}
  if isMeshChanged then
    set[1], set[2] = '#', pack('>ddddd', era, quarantineMs, formatNumber, leaseMs, shards) .. run
  end
  if last ~= lastBefore or count ~= countBefore or remembered ~= rememberedBefore then
    set[#set + 1] = '@'
    set[#set + 1] = pack('>ddd', last, count, remembered)
  end
  for epoch in pairs(changedRows) do
    local row, name = rows[epoch], digits(epoch)
    if row then
      set[#set + 1] = 'r' .. name
      set[#set + 1] = packRow(row)
    else
      gone[#gone + 1] = 'r' .. name
      gone[#gone + 1] = 'b' .. name
      call('HDEL', ANSWERS, name)
      call('HDEL', NOTES, name)
    end
  end
  for epoch in pairs(changedBatches) do
    local row = rows[epoch]
    if row then
      set[#set + 1] = 'b' .. digits(epoch)
      set[#set + 1] = pack('>ddd', row.batch, row.total, row.fresh)
    end
  end
  callMany('HSET', MESH, set)
  callMany('HDEL', MESH, gone)
end

local function flushNotes()
  for epoch in pairs(changedNotes) do
    if rows[epoch] and #notes[epoch] > 0 then call('HSET', NOTES, digits(epoch), cmsgpack.pack(notes[epoch]))
    else call('HDEL', NOTES, digits(epoch)) end
  end
end

local pushes = {}

local function flush()
  if next(changedHeads) then
    writeFields(HEADS, changedHeads, function(key) return heads[key] and packHead(heads[key]) end)
  end
  if next(queued) then flushQueued() end
  if next(newBodies) then callMany('HSET', BODIES, newBodies) end
  if next(goneBodies) then callMany('HDEL', BODIES, goneBodies) end
  if next(changedIds) then writeFields(IDS, changedIds, function(name) return ids[name] end) end
  if next(newlyFinished) then callMany('RPUSH', FINISHED, newlyFinished) end
  flushMesh()
  flushNotes()
  for at = 1, #pushes, 2 do call(ARGV[3], ARGV[4] .. pushes[at], pushes[at + 1]) end
end
`;
