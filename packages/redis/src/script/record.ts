/** The third part: the record as one step sees it. Parts are read when the step asks for them; `R.flush` writes them. */
export const RECORD = String.raw`
-- Declared anew: a function finds the latest of the variables around it soonest.
local call, pack, unpackAs, sub, format = call, pack, unpackAs, sub, format

-- The state of the step, and its rules.
local S = {
  era = era, quarantineMs = quarantineMs, formatNumber = formatNumber, leaseMs = leaseMs, shards = shards,
  run = storedRun, isMeshChanged = false, last = last, count = count, remembered = remembered,
  -- Rows by epoch; false where there is none. How many tickets a row has, and how many of them its last batch brought,
  -- is counted in it: no list of tickets is kept.
  rows = {}, areAllRead = false, changedRows = {}, changedBatches = {}, trials = {}, changedTrials = {},
  heads = {}, raws = raws, changedHeads = {}, changedRaws = changedRaws,
  -- What was queued behind a head in this step: by key in order, and by seq.
  queued = {}, queuedBySeq = {},
  newBodies = newBodies, goneBodies = goneBodies,
  -- Nothing for a message that is here, until when and its number for a finished one; false where there is none.
  ids = ids, changedIds = changedIds, newlyFinished = newlyFinished,
  notes = {}, changedNotes = {},
  -- The caller's row and its batch.
  me = nil, batch = 0,
  -- The entry being enqueued, whose grant is no news; the one being passed on, which is not for the caller.
  fresh = nil, passing = nil,
  -- Greater fences were given in this step.
  stampBefore = last,
  grants = quickGrants, adopted = {}, parked = {},
}
local R = {}

function R.digits(number) return format('%.0f', number) end
function R.double(number) return pack('>d', number) end

-- ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


function R.readRow(epoch, raw, counts)
  if not raw then
    S.rows[epoch] = false
    return false
  end
  local row = { epoch = epoch, batch = 0, total = 0, fresh = 0, stored = '' }
  local proven, replaced, adopts, at
  proven, replaced, row.instance, adopts, row.first, row.beat, row.beatNumber, row.since, at =
    unpackAs('>BBI4c0Bdddd', raw)
  row.proven, row.replaced, row.adopts = proven == 1, replaced == 1, adopts == 1
  row.replicaId = sub(raw, at)
  if counts then
    row.batch, row.total, row.fresh = unpackAs('>ddd', counts)
    row.stored = sub(counts, 25)
  end
  S.rows[epoch] = row
  return row
end

function R.bit01(is) return is and 1 or 0 end

function R.packRow(row)
  return pack('>BBI4c0Bdddd', R.bit01(row.proven), R.bit01(row.replaced), #row.instance, row.instance,
    R.bit01(row.adopts), row.first, row.beat, row.beatNumber, row.since) .. row.replicaId
end

function R.rowOf(epoch)
  if epoch == 0 then return false end
  local row = S.rows[epoch]
  if row ~= nil or S.areAllRead then return row end
  local name = R.digits(epoch)
  local got = call('HMGET', KEY.mesh, 'r' .. name, 'b' .. name)
  return R.readRow(epoch, got[1], got[2])
end

-- All live rows, oldest first.
function R.liveRows()
  if not S.areAllRead then
    local all, found = call('HGETALL', KEY.mesh), {}
    for at = 1, #all, 2 do found[all[at]] = all[at + 1] end
    for name, raw in pairs(found) do
      if sub(name, 1, 1) == 'r' then
        local epoch = tonumber(sub(name, 2))
        if S.rows[epoch] == nil then R.readRow(epoch, raw, found['b' .. sub(name, 2)]) end
      end
    end
    S.areAllRead = true
  end
  local live = {}
  for _, row in pairs(S.rows) do
    if row then live[#live + 1] = row end
  end
  sort(live, function(a, b) return a.epoch < b.epoch end)
  return live
end

-- The key of the suspect message that an epoch was handed last; false for none.
function R.trialOf(epoch)
  local key = S.trials[epoch]
  if key == nil then
    key = call('HGET', KEY.mesh, 's' .. R.digits(epoch))
    S.trials[epoch] = key
  end
  return key
end

function R.setTrial(epoch, key)
  S.trials[epoch] = key
  S.changedTrials[epoch] = true
end

-- ── Entries ──────────────────────────────────────────────────────────────────────────────────────────────────────────


-- Flags of an entry.
local MORE, OFFERED, MESSAGE, ID, ERROR, SUSPECT = 1, 2, 4, 8, 16, 32

function R.flagsOf(entry)
  return (entry.more and MORE or 0) + (entry.offered and OFFERED or 0) + (entry.isMessage and MESSAGE or 0)
    + (entry.id and ID or 0) + (entry.error and ERROR or 0) + (entry.suspect and SUSPECT or 0)
end

function R.readMessage(entry, flags, raw, at)
  if flags < MESSAGE then return entry end
  entry.isMessage = true
  entry.attempt, entry.maxAttempts, entry.dedupeMs, at = unpackAs('>ddd', raw, at)
  if flags % (2 * ID) >= ID then entry.id, at = unpackAs('>I4c0', raw, at) end
  if flags % (2 * ERROR) >= ERROR then entry.error = sub(raw, at) end
  entry.suspect = flags >= SUSPECT
  return entry
end

function R.packMessage(entry)
  if not entry.isMessage then return '' end
  local text = pack('>ddd', entry.attempt, entry.maxAttempts, entry.dedupeMs)
  if entry.id then text = text .. pack('>I4', #entry.id) .. entry.id end
  return text .. (entry.error or '')
end

function R.readHead(key, raw)
  local flags, seq, owner, fence, givenIn, batch, at = unpackAs('>Bddddd', raw)
  local entry = { key = key, seq = seq, owner = owner, fence = fence, era = givenIn, batch = batch }
  if flags == 0 then return entry end
  entry.more = flags % 2 == 1
  entry.offered = flags % 4 >= OFFERED
  entry.isOrphan = owner == 0
  return R.readMessage(entry, flags, raw, at)
end

function R.packHead(entry)
  return pack('>Bddddd', R.flagsOf(entry), entry.seq, entry.owner, entry.fence, entry.era, entry.batch)
    .. R.packMessage(entry)
end

-- No key's prefix is the beginning of another's.
function R.prefixOf(key) return #key .. ':' .. key end

function R.readWaiting(key, member, at)
  local seq, owner, batch, flags, rest = unpackAs('>dddB', member, at)
  local entry = { key = key, seq = seq, owner = owner, fence = 0, era = 0, batch = batch, member = member }
  return R.readMessage(entry, flags, member, rest)
end

function R.packWaiting(entry)
  return R.prefixOf(entry.key) .. pack('>dddB', entry.seq, entry.owner, entry.batch, R.flagsOf(entry))
    .. R.packMessage(entry)
end

function R.headOf(key)
  local head = S.heads[key]
  if head ~= nil then return head end
  local raw = S.raws[key]
  if raw == nil then raw = call('HGET', KEY.heads, key) end
  head = raw and R.readHead(key, raw)
  S.heads[key] = head
  return head
end

-- Reads the heads of many keys at once: of ARGV from and to.
function R.expectHeads(from, to)
  for start = from, to, 4000 do
    local stop = start + 3999
    if stop > to then stop = to end
    local found = call('HMGET', KEY.heads, unpack(ARGV, start, stop))
    for at = start, stop do raws[ARGV[at]] = found[at - start + 1] end
  end
end

function R.setHead(key, entry)
  S.heads[key] = entry
  S.changedHeads[key] = true
end

function R.queue(head, entry)
  local key = entry.key
  local list = S.queued[key]
  if list == nil then
    list = { first = 1 }
    S.queued[key] = list
  end
  list[#list + 1] = entry
  entry.isQueued = true
  S.queuedBySeq[entry.seq] = entry
  if not head.more then
    head.more = true
    S.changedHeads[key] = true
  end
end

-- The first entry of key that was queued in this step and is still there.
function R.firstQueued(key)
  local list = S.queued[key]
  if list == nil then return nil end
  while list[list.first] and not list[list.first].isQueued do list.first = list.first + 1 end
  return list[list.first]
end

-- Takes the head away; the next in line, or false, is the head then.
function R.shift(head)
  local key, nextEntry = head.key, nil
  if head.more then
    local prefix = R.prefixOf(key)
    local found = call('ZRANGEBYLEX', KEY.waiting, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 2)
    if found[1] then
      call('ZREM', KEY.waiting, found[1])
      nextEntry = R.readWaiting(key, found[1], #prefix + 1)
      nextEntry.member = nil
      nextEntry.more = found[2] ~= nil or R.firstQueued(key) ~= nil
    else
      nextEntry = R.firstQueued(key)
      if nextEntry then
        nextEntry.isQueued = false
        nextEntry.more = R.firstQueued(key) ~= nil
      end
    end
  end
  R.setHead(key, nextEntry or false)
  return nextEntry or false
end

-- The entry seq of key behind its head.
function R.findWaiting(head, seq)
  if not head.more then return nil end
  local entry = S.queuedBySeq[seq]
  if entry then return entry.isQueued and entry.key == head.key and entry or nil end
  local prefix = R.prefixOf(head.key)
  local from = prefix .. R.double(seq)
  local member = call('ZRANGEBYLEX', KEY.waiting, '[' .. from, '(' .. from .. '\255', 'LIMIT', 0, 1)[1]
  return member and R.readWaiting(head.key, member, #prefix + 1)
end

function R.removeWaiting(entry)
  if entry.isQueued then entry.isQueued = false
  else call('ZREM', KEY.waiting, entry.member) end
end

-- A waiting entry has changed.
function R.rewrite(entry)
  if entry.isQueued then return end
  call('ZREM', KEY.waiting, entry.member)
  entry.member = R.packWaiting(entry)
  call('ZADD', KEY.waiting, 0, entry.member)
end

function R.bySeq(a, b) return a.seq < b.seq end

-- The heads of an epoch, or all, in the order of their places. Reads all heads there are: for deaths, and what is rare.
function R.headsOf(epoch)
  local found, mark = {}, epoch and R.double(epoch)
  for _, head in pairs(S.heads) do
    if head and (not epoch or head.owner == epoch) then found[#found + 1] = head end
  end
  local cursor = '0'
  repeat
    local page = call('HSCAN', KEY.heads, cursor, 'COUNT', 512)
    cursor = page[1]
    local list = page[2]
    for at = 1, #list, 2 do
      local key, raw = list[at], list[at + 1]
      if S.heads[key] == nil and (not mark or sub(raw, 10, 17) == mark) then
        S.heads[key] = R.readHead(key, raw)
        found[#found + 1] = S.heads[key]
      end
    end
  until cursor == '0'
  sort(found, R.bySeq)
  return found
end

-- Adds the waiting entries of an epoch, or all, to found. Reads all that wait.
function R.addWaitingOf(epoch, found)
  local from = 0
  repeat
    local page = call('ZRANGE', KEY.waiting, from, from + 511)
    for _, member in ipairs(page) do
      local _, colon, length = string.find(member, '^(%d+):')
      local at = colon + tonumber(length) + 1
      local entry = R.readWaiting(sub(member, colon + 1, at - 1), member, at)
      if not epoch or entry.owner == epoch then found[#found + 1] = entry end
    end
    from = from + 512
  until #page < 512
end

-- ── Ids ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


function R.nameOf(key, id) return R.prefixOf(key) .. id end

function R.idOf(name)
  local found = S.ids[name]
  if found == nil then
    found = call('HGET', KEY.ids, name)
    S.ids[name] = found
  end
  return found
end

function R.setId(name, value)
  S.ids[name] = value
  S.changedIds[name] = true
end

-- ── Notes ────────────────────────────────────────────────────────────────────────────────────────────────────────────


function R.notesOf(epoch)
  local list = S.notes[epoch]
  if list == nil then
    local raw = call('HGET', KEY.notes, R.digits(epoch))
    list = raw and cmsgpack.unpack(raw) or {}
    S.notes[epoch] = list
  end
  return list
end

function R.setNotes(epoch, list)
  S.notes[epoch] = list
  S.changedNotes[epoch] = true
end

-- ── Writing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function R.flushQueued()
  local members = {}
  for key, list in pairs(S.queued) do
    for at = list.first, #list do
      if list[at].isQueued then
        members[#members + 1] = 0
        members[#members + 1] = R.packWaiting(list[at])
      end
    end
  end
  callMany('ZADD', KEY.waiting, members)
end

function R.flushMesh()
  if S.isMeshChanged then
    meshSet[1] = '#'
    meshSet[2] = pack('>ddddd', S.era, S.quarantineMs, S.formatNumber, S.leaseMs, S.shards) .. S.run
  end
  for epoch in pairs(S.changedRows) do
    local row, name = S.rows[epoch], R.digits(epoch)
    if row then
      meshSet[#meshSet + 1] = 'r' .. name
      meshSet[#meshSet + 1] = R.packRow(row)
    else
      meshGone[#meshGone + 1] = 'r' .. name
      meshGone[#meshGone + 1] = 'b' .. name
      meshGone[#meshGone + 1] = 's' .. name
      call('HDEL', KEY.answers, name)
      call('HDEL', KEY.notes, name)
    end
  end
  for epoch in pairs(S.changedTrials) do
    if S.rows[epoch] then
      meshSet[#meshSet + 1] = 's' .. R.digits(epoch)
      meshSet[#meshSet + 1] = S.trials[epoch]
    end
  end
  for epoch in pairs(S.changedBatches) do
    local row = S.rows[epoch]
    if row then
      meshSet[#meshSet + 1] = 'b' .. R.digits(epoch)
      meshSet[#meshSet + 1] = pack('>ddd', row.batch, row.total, row.fresh) .. row.stored
    end
  end
end

function R.flushNotes()
  for epoch in pairs(S.changedNotes) do
    local list = S.notes[epoch]
    if S.rows[epoch] and #list > 0 then call('HSET', KEY.notes, R.digits(epoch), cmsgpack.pack(list))
    else call('HDEL', KEY.notes, R.digits(epoch)) end
  end
end

-- What the last part writes.
function R.flush()
  for key in pairs(S.changedHeads) do
    local head = S.heads[key]
    raws[key] = head and R.packHead(head)
    changedRaws[key] = true
  end
  R.flushQueued()
  R.flushMesh()
  R.flushNotes()
end
`;
