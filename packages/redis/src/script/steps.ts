/** The fifth part: the steps themselves, as transitions.ts of @botmesh/core has them. The first argument names the step. */
export const STEPS = `
local STALE_PIN_LEASES, FORGET_SHARE, NOTES_SHARE = 3, 4096, 64


-- ── What the steps have in common ────────────────────────────────────────────────────────────────────────────────────

-- R2: a gap in its own heartbeats, either way, makes a replica wait a whole lease before it may judge others again.
function R.renew(row)
  local gap = now - row.beat
  if gap < 0 or gap > S.leaseMs / 3 then row.since = now end
  row.beat = now
  S.changedRows[row.epoch] = true
end

-- R4: the newer start has the name from now on; what the older holds stays its own until it has surely ended.
function R.replace(row)
  if not row.replaced then
    row.replaced = true
    S.changedRows[row.epoch] = true
    R.push(row, 'replaced ' .. R.digits(row.epoch))
  end
  if row.total == 0 then return end
  for _, head in ipairs(R.headsOf(row.epoch)) do
    if head.fence == 0 and S.heads[head.key] == head then R.settle(head.key) end
  end
end

-- The first that is heard of an epoch after its join: now it has the name, and older starts are replaced.
function R.prove()
  if S.me.proven then return end
  S.me.proven = true
  S.changedRows[S.me.epoch] = true
  for _, row in ipairs(R.liveRows()) do
    if row.replicaId == S.me.replicaId and row.first < S.me.first then R.replace(row) end
  end
end

-- R3: the caller's row if it may act.
function R.admit()
  local row = R.rowOf(tonumber(ARGV[5]))
  if not row or row.instance ~= ARGV[6] then
    answer = { 'dead' }
    return nil
  end
  if row.replaced then
    answer = { 'replaced' }
    return nil
  end
  S.me = row
  return row
end

function R.addParked(list)
  for _, each in ipairs(S.parked) do
    list[#list + 1] = format('%d %d %d', each.attempts, R.bit01(each.id), R.bit01(each.error))
    list[#list + 1] = each.key
    list[#list + 1] = each.id or ''
    list[#list + 1] = each.error or ''
  end
end

-- Appends what the step changed for its caller, and says how much of each.
function R.addNews(list)
  for _, each in ipairs(S.grants) do
    list[#list + 1] = format('%.0f %.0f', each.seq, each.fence)
    list[#list + 1] = each.key
  end
  for _, each in ipairs(S.adopted) do
    local entry = each.entry
    list[#list + 1] = format('%.0f %.0f %d %d', each.seq, each.fence, each.attempt, R.bit01(entry.id))
    list[#list + 1] = entry.key
    list[#list + 1] = entry.id or ''
    list[#list + 1] = R.bodyOf(entry)
  end
  R.addParked(list)
  return #S.grants .. ' ' .. #S.adopted .. ' ' .. #S.parked
end

-- ── join: instance, replicaId, first epoch, adopts, seen, format, lease, shards ──────────────────────────────────────

function R.isPinned()
  for _, row in ipairs(R.liveRows()) do
    if math.abs(now - row.beat) <= STALE_PIN_LEASES * S.leaseMs then return true end
  end
  return false
end

-- R14: a mesh in use keeps its configuration.
function R.pin(wantedFormat, wantedLease, wantedShards)
  local isSame = wantedFormat == S.formatNumber and wantedLease == S.leaseMs and wantedShards == S.shards
  if S.leaseMs ~= 0 and not isSame then
    if R.isPinned() then
      answer = { format('refused %.17g %.17g %.17g', S.formatNumber, S.leaseMs, S.shards) }
      return false
    end
    for _, row in ipairs(R.liveRows()) do R.bury(row) end
    R.startEra(math.max(S.leaseMs, wantedLease))
  end
  if not isSame or S.quarantineMs == math.huge then
    S.formatNumber, S.leaseMs, S.shards = wantedFormat, wantedLease, wantedShards
    if S.quarantineMs == math.huge then S.quarantineMs = R.quarantineOf(S.leaseMs) end
    S.isMeshChanged = true
  end
  return true
end

function R.joined(row)
  answer = { '' }
  R.addParked(answer)
  answer[1] = format('joined %.0f %.0f %d %d', row.epoch, S.era, R.bit01(S.quarantineMs ~= 0), #S.parked)
end

function R.addRow(instance, replicaId, first, adopts)
  local epoch = R.stamp()
  local row = {
    epoch = epoch, replicaId = replicaId, instance = instance, first = first == 0 and epoch or first, proven = false,
    beat = now, beatNumber = 0, since = now, replaced = false, adopts = adopts, batch = 0, total = 0, fresh = 0,
    stored = '',
  }
  S.rows[epoch] = row
  S.changedRows[epoch] = true
  S.changedBatches[epoch] = true
  return row
end

function R.join()
  local instance, replicaId, first, adopts, seen =
    ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8] == '1', tonumber(ARGV[9])
  if not R.pin(tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12])) then return end
  R.noteSeen(seen)
  local found
  for _, row in ipairs(R.liveRows()) do
    if row.instance == instance and found == nil then found = row end
  end
  if found and found.replaced then
    answer = { 'replaced' }
    return
  end
  if found and seen < found.epoch then
    R.renew(found)
    R.joined(found)
    return
  end
  if first ~= 0 then
    for _, row in ipairs(R.liveRows()) do
      if row.replicaId == replicaId and row.proven and row.first > first then
        answer = { 'replaced' }
        return
      end
    end
  end
  if found then R.bury(found) end
  R.joined(R.addRow(instance, replicaId, first, adopts))
end

-- ── apply: epoch, instance, batch, a letter for each operation, their keys, what else each needs ─────────────────────

-- r reserve, t try, a accept with an id, m accept without one; d, b, l, p, w release done, back, lost, passed on and withdrawn,
-- in capitals with a reason and more to finish; n tell, y replay, x drop.
function R.runOp(letter, key, number, text)
  if letter == 'r' then return R.enqueue({ key = key }) end
  if letter == 't' then return R.tryTake(key) end
  if letter == 'd' or letter == 'b' or letter == 'l' or letter == 'p' or letter == 'w' then
    return R.release(key, number(), letter)
  end
  if letter == 'a' then return R.accept(key, text(), text(), number(), number()) end
  if letter == 'm' then return R.accept(key, nil, text(), number(), number()) end
  if letter == 'n' then return R.tellHolder(key, text()) end
  if letter == 'y' then return R.replay(key, number(), number(), number()) end
  if letter == 'x' then return R.drop(key, number()) end
  -- A reason is nothing, or a text after a mark.
  local seq, reason, also = number(), text(), {}
  for at = 1, number() do also[at] = number() end
  return R.release(key, seq, string.lower(letter), reason ~= '' and sub(reason, 2) or nil, also)
end

function R.resultOf(taken)
  if taken == nil then return '-' end
  local seq, fence = taken.seq, taken.fence
  local isNext = seq == lastTold + 1
  if fence == 0 then
    if not isNext then return format('%d', seq - base) end
    lastTold = seq
    return '~'
  end
  if not isNext or fence ~= seq + 1 then return format('%d,%d', seq - base, fence - base) end
  lastTold = fence
  return '+'
end

function R.runRest()
  local function text()
    nextArg = nextArg + 1
    return ARGV[nextArg - 1]
  end
  local function number() return tonumber(text()) end
  for op = nextOp, #letters do results[op] = R.resultOf(R.runOp(sub(letters, op, op), ARGV[8 + op], number, text)) end
end

function R.storedAnswer(row)
  if row.stored == '' then return nil end
  if sub(row.stored, 1, 1) == '=' then return cmsgpack.unpack(sub(row.stored, 2)) end
  if row.stored ~= '*' then return { row.stored } end
  local stored = call('HGET', KEY.answers, ARGV[5])
  return stored and cmsgpack.unpack(stored)
end

function R.apply()
  local me = R.admit()
  if not me then return end
  R.prove()
  local number = tonumber(ARGV[7])
  if number <= me.batch then
    -- R7: the same number again gets the same answer again, an older one does nothing.
    answer = number == me.batch and R.storedAnswer(me) or { 'stale' }
    return
  end
  S.batch = number
  me.fresh = 0
  if isQuick then me.total, me.fresh = total, fresh end
  R.runRest()
  answer = { '' }
  local news = R.addNews(answer)
  answer[1] = format('applied %.0f %.0f ', S.era, base) .. news .. ' ' .. table.concat(results, ' ')
  me.batch = number
  S.changedBatches[me.epoch] = true
  if #answer > 1 then call('HSET', KEY.answers, ARGV[5], cmsgpack.pack(answer))
  elseif me.stored == '*' then call('HDEL', KEY.answers, ARGV[5]) end
  me.stored = #answer > 1 and '*' or answer[1]
end

-- ── beat: epoch, instance, beat, era, watched, seen, adopts, answered, heard, tickets, their keys, seq and fence of each

function R.buryTheDead()
  for _, row in ipairs(R.liveRows()) do
    -- A clock that was set back may keep nobody alive for ever.
    if row.beat > now then
      row.beat = now
      S.changedRows[row.epoch] = true
    end
    if row ~= S.me and R.isOver(row) then R.bury(row) end
  end
end

-- The caller waits for this entry: tell it of a grant it missed, or grant what a server change left open.
function R.deliver(entry)
  if S.heads[entry.key] ~= entry then return end
  if not R.isGranted(entry) then R.settle(entry.key)
  elseif entry.fence <= S.stampBefore then R.tell(entry) end
end

function R.confirm(entry, fence)
  if entry.fence ~= fence or S.heads[entry.key] ~= entry then return false end
  if entry.era ~= S.era then
    entry.era = S.era
    S.changedHeads[entry.key] = true
  end
  return true
end

-- R12: what the owner does not know of goes; a message is left for whoever can handle it.
function R.disown(listed, answered)
  local found = R.headsOf(S.me.epoch)
  R.addWaitingOf(S.me.epoch, found)
  sort(found, R.bySeq)
  -- What was lost with a part of the data is counted no more.
  S.me.total, S.me.fresh = #found, 0
  for _, entry in ipairs(found) do
    if entry.batch ~= 0 and entry.batch == S.me.batch then S.me.fresh = S.me.fresh + 1 end
  end
  S.changedBatches[S.me.epoch] = true
  for _, entry in ipairs(found) do
    local isKnown = listed[entry.seq] or entry.offered or entry.batch > answered
    local isStill = S.heads[entry.key] == entry or entry.member ~= nil
    if not isKnown and isStill then
      -- It may have come to the head meanwhile.
      local current = R.mine(entry.key, entry.seq)
      if current and current.isMessage then R.detach(S.me, current)
      elseif current then R.remove(S.me, current) end
    end
  end
end

-- How many tickets the caller may have that it does not list; nil where that is not counted.
function R.expectedBeyond(answered)
  if answered >= S.me.batch then return 0 end
  if answered == S.me.batch - 1 then return S.me.fresh end
  return nil
end

-- R10, R11: what the caller lists is confirmed, granted, or reported lost.
function R.compareView(answered, tickets)
  local lost, listed, known, knownFresh = {}, {}, 0, 0
  local from = 15 + tickets
  if tickets > 0 then R.expectHeads(15, from - 1) end
  for index = 1, tickets do
    local key, seq, fence = ARGV[14 + index], tonumber(ARGV[from]), tonumber(ARGV[from + 1])
    from = from + 2
    local entry = R.mine(key, seq)
    if entry == nil then
      lost[#lost + 1] = index - 1
    else
      if not listed[seq] then
        listed[seq] = true
        known = known + 1
        if entry.batch > answered then knownFresh = knownFresh + 1 end
      end
      R.unoffer(entry)
      if fence == 0 then R.deliver(entry)
      elseif not R.confirm(entry, fence) then lost[#lost + 1] = index - 1 end
    end
  end
  -- As a rule the caller knows all it has.
  local beyond = R.expectedBeyond(answered)
  if beyond == nil or S.me.total - known ~= beyond - knownFresh then R.disown(listed, answered) end
  return lost
end

function R.offersToMe()
  local list, found, mark = call('HGETALL', KEY.offers), {}, R.double(S.me.epoch)
  for at = 1, #list, 2 do
    if list[at + 1] == mark then
      local entry = R.headOf(list[at])
      if entry and entry.owner == S.me.epoch and entry.offered then found[#found + 1] = entry end
    end
  end
  sort(found, R.bySeq)
  return found
end

-- Hands the caller what was offered and not yet listed, and messages that nobody took. True when there is more.
function R.lookAround(answered)
  if not S.me.adopts then
    -- Nobody listens there any more: it goes to somebody else, its attempt not begun.
    for _, entry in ipairs(R.offersToMe()) do
      if entry.batch <= answered then
        entry.fence = 0
        R.detach(S.me, entry)
      end
    end
    return false
  end
  if S.quarantineMs ~= 0 then return false end
  R.tryNextSuspect()
  for _, key in ipairs(call('ZRANGEBYSCORE', KEY.orphans, '-inf', '(' .. FIRST_SUSPECT, 'LIMIT', 0, ADOPT_SHARE)) do
    R.settle(key)
  end
  local isHandedOut = {}
  for _, each in ipairs(S.adopted) do isHandedOut[each.seq] = true end
  for _, entry in ipairs(R.offersToMe()) do
    if entry.isMessage and entry.batch <= answered and not isHandedOut[entry.seq] then
      if #S.adopted >= ADOPT_SHARE then return true end
      -- R10: in the store's former life a later fence of this key may have been given.
      if not R.isGranted(entry) then R.hold(entry) end
      R.offer(entry)
    end
  end
  return call('ZCOUNT', KEY.orphans, '-inf', '(' .. FIRST_SUSPECT) > 0
end

-- Of its notes the caller keeps those that it has not heard and that are for a turn it still has.
function R.hearUpTo(heard)
  local list, kept = R.notesOf(S.me.epoch), {}
  for _, note in ipairs(list) do
    local head = note[1] > heard and R.headOf(note[2])
    -- A later grant of the same ticket is another turn.
    local isForTurn = head and head.seq == note[3] and head.owner == S.me.epoch and head.fence ~= 0
      and head.fence < note[1]
    if isForTurn then kept[#kept + 1] = note end
  end
  if #kept < #list then R.setNotes(S.me.epoch, kept) end
  return kept
end

function R.addNotes(list, kept)
  local most = math.min(#kept, NOTES_SHARE)
  for at = 1, most do
    list[#list + 1] = format('%.0f %.0f', kept[at][1], kept[at][3])
    list[#list + 1] = kept[at][2]
    list[#list + 1] = kept[at][4]
  end
  return most
end

function R.forgetPaces()
  local over = call('ZRANGEBYSCORE', KEY.paces, '-inf', now, 'LIMIT', 0, FORGET_SHARE)
  if #over > 0 then call('ZREM', KEY.paces, unpack(over)) end
end

-- Forgets ids whose time is over, oldest first. One that was taken in again since stands in the list in vain.
function R.forgetExpired()
  local forgotten, passed, share = 0, 0, 1
  while forgotten < FORGET_SHARE do
    local page = call('LRANGE', KEY.finished, passed, passed + share - 1)
    local names, isStopped = {}, false
    for at, item in ipairs(page) do names[at] = sub(item, 9) end
    local found = #names > 0 and call('HMGET', KEY.ids, unpack(names)) or {}
    for at, value in ipairs(found) do
      local isCurrent = value and value ~= '' and sub(value, 9) == sub(page[at], 1, 8)
      if isCurrent and (unpackAs('>d', value) > now or forgotten == FORGET_SHARE) then
        isStopped = true
        break
      end
      passed = passed + 1
      if isCurrent then
        forgotten = forgotten + 1
        S.remembered = S.remembered - 1
        R.setId(names[at], false)
      end
    end
    if isStopped or #page < share then break end
    share = 256
  end
  if passed > 0 then call('LTRIM', KEY.finished, passed, -1) end
end

function R.beat()
  if not R.admit() then return end
  local number = tonumber(ARGV[7])
  -- An old view would take away what came after it.
  if number <= S.me.beatNumber then
    answer = { 'stale' }
    return
  end
  S.me.beatNumber = number
  R.prove()
  R.noteSeen(tonumber(ARGV[10]))
  R.renew(S.me)
  S.me.adopts = ARGV[11] == '1'
  if tonumber(ARGV[8]) == S.era and tonumber(ARGV[9]) >= S.quarantineMs and S.quarantineMs ~= 0 then
    S.quarantineMs = 0
    S.isMeshChanged = true
  end
  R.buryTheDead()
  local answered = tonumber(ARGV[12])
  local lost = R.compareView(answered, tonumber(ARGV[14]))
  local hasMore = R.lookAround(answered)
  local kept = R.hearUpTo(tonumber(ARGV[13]))
  R.forgetExpired()
  R.forgetPaces()
  R.push(S.me, 'ping ' .. R.digits(S.me.epoch))
  answer = { '' }
  local news = R.addNews(answer)
  local told = R.addNotes(answer, kept)
  hasMore = hasMore or told < #kept
  answer[1] = format('alive %.0f %d %d %d ', S.era, R.bit01(S.quarantineMs ~= 0), R.bit01(hasMore), told) .. news
    .. ' ' .. table.concat(lost, ' ')
end

-- ── leave: epoch, instance ───────────────────────────────────────────────────────────────────────────────────────────

function R.leave()
  answer = { 'left' }
  local row = R.rowOf(tonumber(ARGV[5]))
  if row and row.instance == ARGV[6] then R.bury(row, true) end
end

-- ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

if step ~= 'join' then R.readRow(tonumber(ARGV[5]), known[3], known[4]) end
-- Heartbeats go on where memory is full, and nothing that is held is lost.
if step == 'beat' or step == 'leave' or frees then call('HDEL', KEY.mesh, '-') end
R.begin()
if step == 'apply' then R.apply()
elseif step == 'beat' then R.beat()
elseif step == 'join' then R.join()
else R.leave() end
R.flush()
last, count, remembered = S.last, S.count, S.remembered
`;
