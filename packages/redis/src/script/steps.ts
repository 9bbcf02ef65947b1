/** The third part: the steps themselves, as transitions.ts of @botmesh/core has them. The first argument names the step. */
export const STEPS = String.raw`
local STALE_PIN_LEASES, FORGET_SHARE, NOTES_SHARE = 3, 4096, 64

local step = ARGV[1]
local answer

-- ── What the steps have in common ────────────────────────────────────────────────────────────────────────────────────

-- R2: a gap in its own heartbeats, either way, makes a replica wait a whole lease before it may judge others again.
local function renew(row)
  local gap = now - row.beat
  if gap < 0 or gap > leaseMs / 3 then row.since = now end
  row.beat = now
  changedRows[row.epoch] = true
end

-- R4: the newer start has the name from now on; what the older holds stays its own until it has surely ended.
local function replace(row)
  if not row.replaced then
    row.replaced = true
    changedRows[row.epoch] = true
    push(row, 'replaced ' .. digits(row.epoch))
  end
  if row.total == 0 then return end
  for _, head in ipairs(headsOf(row.epoch)) do
    if head.fence == 0 and heads[head.key] == head then settle(head.key) end
  end
end

-- The first that is heard of an epoch after its join: now it has the name, and older starts are replaced.
local function prove()
  if me.proven then return end
  me.proven = true
  changedRows[me.epoch] = true
  for _, row in ipairs(liveRows()) do
    if row.replicaId == me.replicaId and row.first < me.first then replace(row) end
  end
end

-- R3: the caller's row if it may act.
local function admit()
  local row = rowOf(tonumber(ARGV[5]))
  if not row or row.instance ~= ARGV[6] then
    answer = { 'dead' }
    return nil
  end
  if row.replaced then
    answer = { 'replaced' }
    return nil
  end
  me = row
  return row
end

-- Appends what the step changed for its caller, and says how much of each.
local function addNews(list)
  for _, each in ipairs(grants) do
    list[#list + 1] = format('%.0f %.0f', each.seq, each.fence)
    list[#list + 1] = each.key
  end
  for _, each in ipairs(adopted) do
    local entry = each.entry
    list[#list + 1] = format('%.0f %.0f %d %d', each.seq, each.fence, each.attempt, bit01(entry.id))
    list[#list + 1] = entry.key
    list[#list + 1] = entry.id or ''
    list[#list + 1] = bodyOf(entry)
  end
  for _, each in ipairs(parked) do
    list[#list + 1] = format('%d %d %d', each.attempts, bit01(each.id), bit01(each.error))
    list[#list + 1] = each.key
    list[#list + 1] = each.id or ''
    list[#list + 1] = each.error or ''
  end
  return #grants .. ' ' .. #adopted .. ' ' .. #parked
end

-- ── join: instance, replicaId, first epoch, adopts, seen, format, lease, shards ──────────────────────────────────────

local function isPinned()
  for _, row in ipairs(liveRows()) do
    if math.abs(now - row.beat) <= STALE_PIN_LEASES * leaseMs then return true end
  end
  return false
end

-- R14: a mesh in use keeps its configuration.
local function pin(wantedFormat, wantedLease, wantedShards)
  local isSame = wantedFormat == formatNumber and wantedLease == leaseMs and wantedShards == shards
  if leaseMs ~= 0 and not isSame then
    if isPinned() then
      answer = { format('refused %.17g %.17g %.17g', formatNumber, leaseMs, shards) }
      return false
    end
    for _, row in ipairs(liveRows()) do bury(row) end
    startEra(math.max(leaseMs, wantedLease))
  end
  if not isSame or quarantineMs == math.huge then
    formatNumber, leaseMs, shards = wantedFormat, wantedLease, wantedShards
    if quarantineMs == math.huge then quarantineMs = quarantineOf(leaseMs) end
    isMeshChanged = true
  end
  return true
end

local function joined(row)
  answer = { format('joined %.0f %.0f %d', row.epoch, era, bit01(quarantineMs ~= 0)) }
end

local function addRow(instance, replicaId, first, adopts)
  local epoch = stamp()
  local row = {
    epoch = epoch, replicaId = replicaId, instance = instance, first = first == 0 and epoch or first, proven = false,
    beat = now, beatNumber = 0, since = now, replaced = false, adopts = adopts, batch = 0, total = 0, fresh = 0,
  }
  rows[epoch] = row
  changedRows[epoch] = true
  changedBatches[epoch] = true
  return row
end

local function join()
  local instance, replicaId, first, adopts, seen =
    ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8] == '1', tonumber(ARGV[9])
  if not pin(tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])) then return end
  noteSeen(seen)
  local found
  for _, row in ipairs(liveRows()) do
    if row.instance == instance and found == nil then found = row end
  end
  if found and found.replaced then
    answer = { 'replaced' }
    return
  end
  if found and seen < found.epoch then
    renew(found)
    joined(found)
    return
  end
  if found then bury(found) end
  if first ~= 0 then
    for _, row in ipairs(liveRows()) do
      if row.replicaId == replicaId and row.proven and row.first > first then
        answer = { 'replaced' }
        return
      end
    end
  end
  joined(addRow(instance, replicaId, first, adopts))
end

-- ── apply: epoch, instance, batch, a letter for each operation, their keys, what else each needs ─────────────────────

-- r reserve, t try, a accept with an id, m accept without one; d, b, p, w release done, back, passed on and withdrawn,
-- in capitals with a reason and more to finish; n tell, y replay, x drop.
local function runAll(letters, base)
  local results = {}
  local at = 9 + #letters
  local function number()
    at = at + 1
    return tonumber(ARGV[at - 1])
  end
  local function text()
    at = at + 1
    return ARGV[at - 1]
  end
  -- Nothing, or a text after a mark.
  local function optional()
    local given = text()
    return given ~= '' and sub(given, 2) or nil
  end
  for index = 1, #letters do
    local letter, key, taken = sub(letters, index, index), ARGV[8 + index], nil
    if letter == 'r' then taken = enqueue({ key = key })
    elseif letter == 'd' or letter == 'b' or letter == 'p' or letter == 'w' then release(key, number(), letter)
    elseif letter == 'a' then taken = accept(key, text(), text(), number(), number())
    elseif letter == 'm' then taken = accept(key, nil, text(), number(), number())
    elseif letter == 't' then taken = tryTake(key)
    elseif letter == 'n' then taken = tellHolder(key, text())
    elseif letter == 'y' then taken = replay(key, number(), number(), number())
    elseif letter == 'x' then taken = drop(key, number())
    else
      local seq, reason, also = number(), optional(), {}
      for more = 1, number() do also[more] = number() end
      taken = release(key, seq, string.lower(letter), reason, also)
    end
    if taken == nil then results[index] = '-'
    elseif taken.fence == 0 then results[index] = format('%d', taken.seq - base)
    else results[index] = format('%d,%d', taken.seq - base, taken.fence - base) end
  end
  return results
end

local function apply()
  if not admit() then return end
  prove()
  local number, letters = tonumber(ARGV[7]), ARGV[8]
  if number <= me.batch then
    -- R7: the same number again gets the same answer again, an older one does nothing.
    local stored = number == me.batch and call('HGET', ANSWERS, ARGV[5])
    answer = stored and cmsgpack.unpack(stored) or { 'stale' }
    return
  end
  batch = number
  me.fresh = 0
  if #letters > 0 then expectHeads(9, 8 + #letters) end
  local base = last
  local results = runAll(letters, base)
  answer = { '' }
  local news = addNews(answer)
  answer[1] = format('applied %.0f %.0f ', era, base) .. news .. ' ' .. table.concat(results, ' ')
  me.batch = number
  changedBatches[me.epoch] = true
  call('HSET', ANSWERS, ARGV[5], cmsgpack.pack(answer))
end

-- ── beat: epoch, instance, beat, era, watched, seen, adopts, answered, heard, tickets, their keys, seq and fence of each

local function buryTheDead()
  for _, row in ipairs(liveRows()) do
    -- A clock that was set back may keep nobody alive for ever.
    if row.beat > now then
      row.beat = now
      changedRows[row.epoch] = true
    end
    if row ~= me and isOver(row) then bury(row) end
  end
end

-- The caller waits for this entry: tell it of a grant it missed, or grant what a server change left open.
local function deliver(entry)
  if heads[entry.key] ~= entry then return end
  if not isGranted(entry) then settle(entry.key)
  elseif entry.fence <= stampBefore then tell(entry) end
end

local function confirm(entry, fence)
  if entry.fence ~= fence or heads[entry.key] ~= entry then return false end
  if entry.era ~= era then
    entry.era = era
    changedHeads[entry.key] = true
  end
  return true
end

-- R12: what the owner does not know of goes; a message is left for whoever can handle it.
local function disown(listed, answered)
  local found = headsOf(me.epoch)
  addWaitingOf(me.epoch, found)
  sort(found, bySeq)
  -- What was lost with a part of the data is counted no more.
  me.total, me.fresh = #found, 0
  for _, entry in ipairs(found) do
    if entry.batch ~= 0 and entry.batch == me.batch then me.fresh = me.fresh + 1 end
  end
  changedBatches[me.epoch] = true
  for _, entry in ipairs(found) do
    local isKnown = listed[entry.seq] or entry.offered or entry.batch > answered
    local isStill = heads[entry.key] == entry or entry.member ~= nil
    if not isKnown and isStill then
      -- It may have come to the head meanwhile.
      local current = mine(entry.key, entry.seq)
      if current and current.isMessage then detach(me, current)
      elseif current then remove(me, current) end
    end
  end
end

-- How many tickets the caller may have that it does not list; nil where that is not counted.
local function expectedBeyond(answered)
  if answered >= me.batch then return 0 end
  if answered == me.batch - 1 then return me.fresh end
  return nil
end

-- R10, R11: what the caller lists is confirmed, granted, or reported lost.
local function compareView(answered, tickets)
  local lost, listed, known, knownFresh = {}, {}, 0, 0
  local from = 15 + tickets
  if tickets > 0 then expectHeads(15, from - 1) end
  for index = 1, tickets do
    local key, seq, fence = ARGV[14 + index], tonumber(ARGV[from]), tonumber(ARGV[from + 1])
    from = from + 2
    local entry = mine(key, seq)
    if entry == nil then
      lost[#lost + 1] = index - 1
    else
      if not listed[seq] then
        listed[seq] = true
        known = known + 1
        if entry.batch > answered then knownFresh = knownFresh + 1 end
      end
      unoffer(entry)
      if fence == 0 then deliver(entry)
      elseif not confirm(entry, fence) then lost[#lost + 1] = index - 1 end
    end
  end
  -- As a rule the caller knows all it has.
  local beyond = expectedBeyond(answered)
  if beyond == nil or me.total - known ~= beyond - knownFresh then disown(listed, answered) end
  return lost
end

local function offersToMe()
  local list, found, mark = call('HGETALL', OFFERS), {}, double(me.epoch)
  for at = 1, #list, 2 do
    if list[at + 1] == mark then
      local entry = headOf(list[at])
      if entry and entry.owner == me.epoch and entry.offered then found[#found + 1] = entry end
    end
  end
  sort(found, bySeq)
  return found
end

-- Hands the caller what was offered and not yet listed, and messages that nobody took. True when there is more.
local function lookAround(answered)
  if not me.adopts then
    -- Nobody listens there any more: it goes to somebody else, its attempt not begun.
    for _, entry in ipairs(offersToMe()) do
      if entry.batch <= answered then
        entry.fence = 0
        detach(me, entry)
      end
    end
    return false
  end
  if quarantineMs ~= 0 then return false end
  for _, key in ipairs(call('ZRANGE', ORPHANS, 0, ADOPT_SHARE - 1)) do settle(key) end
  local isHandedOut = {}
  for _, each in ipairs(adopted) do isHandedOut[each.seq] = true end
  for _, entry in ipairs(offersToMe()) do
    if entry.isMessage and entry.batch <= answered and not isHandedOut[entry.seq] then
      if #adopted >= ADOPT_SHARE then return true end
      -- R10: in the store's former life a later fence of this key may have been given.
      if not isGranted(entry) then hold(entry) end
      offer(entry)
    end
  end
  return call('ZCARD', ORPHANS) > 0
end

-- Of its notes the caller keeps those that it has not heard and that are for a turn it still has.
local function hearUpTo(heard)
  local list, kept = notesOf(me.epoch), {}
  for _, note in ipairs(list) do
    local head = note[1] > heard and headOf(note[2])
    -- A later grant of the same ticket is another turn.
    local isForTurn = head and head.seq == note[3] and head.owner == me.epoch and head.fence ~= 0
      and head.fence < note[1]
    if isForTurn then kept[#kept + 1] = note end
  end
  if #kept < #list then setNotes(me.epoch, kept) end
  return kept
end

local function addNotes(list, kept)
  local most = math.min(#kept, NOTES_SHARE)
  for at = 1, most do
    list[#list + 1] = format('%.0f %.0f', kept[at][1], kept[at][3])
    list[#list + 1] = kept[at][2]
    list[#list + 1] = kept[at][4]
  end
  return most
end

local function forgetPaces()
  local over = call('ZRANGEBYSCORE', PACES, '-inf', now, 'LIMIT', 0, FORGET_SHARE)
  if #over > 0 then call('ZREM', PACES, unpack(over)) end
end

-- Forgets ids whose time is over, oldest first. One that was taken in again since stands in the list in vain.
local function forgetExpired()
  local forgotten, passed, share = 0, 0, 1
  while forgotten < FORGET_SHARE do
    local page = call('LRANGE', FINISHED, passed, passed + share - 1)
    local names, isStopped = {}, false
    for at, item in ipairs(page) do names[at] = sub(item, 9) end
    local found = #names > 0 and call('HMGET', IDS, unpack(names)) or {}
    for at, value in ipairs(found) do
      local isCurrent = value and value ~= '' and sub(value, 9) == sub(page[at], 1, 8)
      if isCurrent and (unpackAs('>d', value) > now or forgotten == FORGET_SHARE) then
        isStopped = true
        break
      end
      passed = passed + 1
      if isCurrent then
        forgotten = forgotten + 1
        remembered = remembered - 1
        setId(names[at], false)
      end
    end
    if isStopped or #page < share then break end
    share = 256
  end
  if passed > 0 then call('LTRIM', FINISHED, passed, -1) end
end

local function beat()
  if not admit() then return end
  local number = tonumber(ARGV[7])
  -- An old view would take away what came after it.
  if number <= me.beatNumber then
    answer = { 'stale' }
    return
  end
  me.beatNumber = number
  prove()
  noteSeen(tonumber(ARGV[10]))
  renew(me)
  me.adopts = ARGV[11] == '1'
  if tonumber(ARGV[8]) == era and tonumber(ARGV[9]) >= quarantineMs and quarantineMs ~= 0 then
    quarantineMs = 0
    isMeshChanged = true
  end
  buryTheDead()
  local answered = tonumber(ARGV[12])
  local lost = compareView(answered, tonumber(ARGV[14]))
  local hasMore = lookAround(answered)
  local kept = hearUpTo(tonumber(ARGV[13]))
  forgetExpired()
  forgetPaces()
  push(me, 'ping ' .. digits(me.epoch))
  answer = { '' }
  local news = addNews(answer)
  local told = addNotes(answer, kept)
  hasMore = hasMore or told < #kept
  answer[1] = format('alive %.0f %d %d %d ', era, bit01(quarantineMs ~= 0), bit01(hasMore), told) .. news
    .. ' ' .. table.concat(lost, ' ')
end

-- ── leave: epoch, instance ───────────────────────────────────────────────────────────────────────────────────────────

local function leave()
  answer = { 'left' }
  local row = rowOf(tonumber(ARGV[5]))
  if row and row.instance == ARGV[6] then bury(row, true) end
end

-- ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

if step == 'join' then
  readMesh(unpack(call('HMGET', MESH, '#', '@')))
else
  local found = call('HMGET', MESH, '#', '@', 'r' .. ARGV[5], 'b' .. ARGV[5])
  readMesh(found[1], found[2])
  readRow(tonumber(ARGV[5]), found[3], found[4])
end
begin()
if step == 'apply' then apply()
elseif step == 'beat' then beat()
elseif step == 'join' then join()
else leave() end
flush()
return answer
`;
