/**
 * The fourth part: what may be decided in a step, who is next, who is skipped, who takes over a message, who is buried.
 * Rule by rule the reference of @botmesh/core (coordination/record/step.ts, queues.ts and operations.ts).
 */
export const RULES = `
local ADOPT_SHARE, MOST_NOTES = 64, 256
-- A message that a replica died with is suspect from this attempt on, or from its last one; one that has run for so many
-- leases holds up no other; from this score on an orphan is a suspect message.
local SUSPECT_FROM, TRIAL_LEASES, FIRST_SUSPECT = 3, 5, '4503599627370496'

-- ── Stamps and eras ──────────────────────────────────────────────────────────────────────────────────────────────────

function R.stamp()
  S.last = S.last + 1
  if S.last < clock then S.last = clock end
  return S.last
end

function R.quarantineOf(lease) return (2 * lease) / 3 + lease / 24 end

function R.startEra(lease)
  S.era = tonumber(sub(redis.sha1hex(S.run .. ' ' .. R.digits(R.stamp())), 1, 13), 16)
  if S.era == 0 then S.era = 1 end
  S.quarantineMs = lease == 0 and math.huge or R.quarantineOf(lease)
  if lease ~= 0 then S.last = S.last + floor(S.quarantineMs * 100) end
  for _, row in ipairs(R.liveRows()) do
    row.since = now
    S.changedRows[row.epoch] = true
  end
  S.isMeshChanged = true
end

-- R9: a server that may have lost writes starts a new era, in which nothing is granted for a while.
function R.begin()
  if run == storedRun and not isPartLost then return end
  S.run = run
  R.startEra(S.leaseMs)
  if isPartLost then R.repair() end
end

function R.noteSeen(seen)
  -- No stamp that was ever given is greater than that.
  if seen > S.last and seen <= 6755399441055744 then S.last = seen end
end

function R.isWitness(row)
  local gap = now - row.beat
  return gap >= 0 and gap <= S.leaseMs / 3 and now - row.since >= S.leaseMs
end

function R.isOver(row)
  return S.me ~= nil and now - row.beat > S.leaseMs and R.isWitness(S.me)
end

-- ── Tickets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

function R.currentBatch(row)
  if row == S.me and S.batch ~= 0 then return S.batch end
  return row.batch
end

function R.addTicket(row, entry, by)
  row.total = row.total + by
  if entry.batch ~= 0 and entry.batch == R.currentBatch(row) then row.fresh = row.fresh + by end
  S.changedBatches[row.epoch] = true
end

function R.isGranted(entry) return entry.fence ~= 0 and entry.era == S.era end

function R.push(row, text)
  pushes[#pushes + 1] = row.instance
  pushes[#pushes + 1] = text
end

function R.hold(entry)
  entry.fence = R.stamp()
  entry.era = S.era
  S.changedHeads[entry.key] = true
end

function R.tell(entry) S.grants[#S.grants + 1] = { key = entry.key, seq = entry.seq, fence = entry.fence } end

function R.grant(entry, owner)
  R.hold(entry)
  if entry == S.fresh then return end
  if owner == S.me then
    R.tell(entry)
  else
    R.push(owner, format('grant %.0f %.0f %.0f %.0f ', owner.epoch, S.era, entry.seq, entry.fence) .. entry.key)
  end
end

function R.unoffer(entry)
  if not entry.offered then return end
  entry.offered = false
  call('HDEL', KEY.offers, entry.key)
  S.changedHeads[entry.key] = true
end

function R.bodyOf(entry)
  if entry.body == nil then entry.body = call('HGET', KEY.bodies, R.double(entry.seq)) or '' end
  return entry.body
end

function R.dropBody(entry) S.goneBodies[#S.goneBodies + 1] = R.double(entry.seq) end

function R.offer(entry)
  R.bodyOf(entry)
  S.adopted[#S.adopted + 1] = { entry = entry, seq = entry.seq, fence = entry.fence, attempt = entry.attempt }
end

-- Whether a replica has a suspect message in its hand.
function R.isOnTrial(row)
  local key = R.trialOf(row.epoch)
  local head = key and R.headOf(key)
  return head and head.suspect and head.owner == row.epoch and now - head.fence / 1000 < TRIAL_LEASES * S.leaseMs
end

-- The caller if it can and does not pass the entry on just now, else the live replica with the fewest tickets.
function R.chooseAdopter(entry)
  local function isFree(row) return not entry.suspect or not R.isOnTrial(row) end
  if S.me and S.me.adopts and S.passing ~= entry and #S.adopted < ADOPT_SHARE and isFree(S.me) then return S.me end
  local best
  for _, row in ipairs(R.liveRows()) do
    if row.adopts and row.proven and not row.replaced and row ~= S.me and isFree(row) then
      if best == nil or row.total < best.total then best = row end
    end
  end
  return best
end

-- The head is a message that is given up: keeps it aside.
function R.park(entry)
  local attempts = entry.attempt - 1
  local id, reason = entry.id or false, entry.error or false
  call('HSET', KEY.parked, R.double(entry.seq), cmsgpack.pack({ entry.key, id, R.bodyOf(entry), attempts, reason }))
  S.parked[#S.parked + 1] = { key = entry.key, id = id, attempts = attempts, error = reason }
  R.dropBody(entry)
  R.shift(entry)
end

-- It was granted and did not end. isDeath: neither did its replica.
function R.countAttempt(entry, isDeath)
  entry.fence = 0
  entry.attempt = entry.attempt + 1
  if isDeath and entry.attempt >= math.min(SUSPECT_FROM, entry.maxAttempts) then entry.suspect = true end
  S.changedHeads[entry.key] = true
end

-- Gives the head, a message whose owner is gone, to a live replica, or parks it. False when nobody can take it now.
function R.passOn(entry)
  if entry.fence ~= 0 then R.countAttempt(entry, entry.owner ~= 0) end
  local former = R.rowOf(entry.owner)
  if former then R.addTicket(former, entry, -1) end
  R.unoffer(entry)
  entry.owner = 0
  S.changedHeads[entry.key] = true
  if entry.attempt > entry.maxAttempts then
    R.park(entry)
    return true
  end
  if S.quarantineMs ~= 0 then return false end
  local adopter = R.chooseAdopter(entry)
  if adopter == nil then return false end
  if entry.isOrphan then call('ZREM', KEY.orphans, entry.key) end
  entry.isOrphan = false
  if entry.suspect then R.setTrial(adopter.epoch, entry.key) end
  entry.owner = adopter.epoch
  entry.batch = adopter == S.me and S.batch or 0
  entry.offered = true
  call('HSET', KEY.offers, entry.key, R.double(adopter.epoch))
  R.addTicket(adopter, entry, 1)
  R.hold(entry)
  if adopter == S.me then R.offer(entry) else R.push(adopter, 'look ' .. R.digits(adopter.epoch)) end
  return true
end

function R.addOrphan(entry)
  S.count = S.count + 1
  call('ZADD', KEY.orphans, 'NX', S.count + (entry.suspect and FIRST_SUSPECT or 0), entry.key)
end

function R.leaveOrphan(entry)
  if entry.isOrphan then return end
  entry.isOrphan = true
  R.addOrphan(entry)
end

-- Brings the head of key to a live owner and grants it. Every step that changes a head ends here.
function R.settle(key)
  local head = R.headOf(key)
  while head do
    local owner = R.rowOf(head.owner)
    if owner then
      if R.isGranted(head) then return end
      -- A replaced replica may still believe in an old grant until it leaves or its lease is over.
      if owner.replaced and head.fence ~= 0 then return end
      if not owner.replaced then
        if S.quarantineMs == 0 then R.grant(head, owner) end
        return
      end
    end
    if head.isMessage then
      if not R.passOn(head) then
        R.leaveOrphan(head)
        return
      end
      head = R.headOf(key)
    else
      if owner then R.addTicket(owner, head, -1) end
      head = R.shift(head)
    end
  end
end

-- Hands out the suspect message that has waited longest, if any replica may have one.
function R.tryNextSuspect()
  local key = call('ZRANGEBYSCORE', KEY.orphans, FIRST_SUSPECT, '+inf', 'LIMIT', 0, 1)[1]
  if key then R.settle(key) end
end

-- R1: removing the row is the death. Those of its tickets that stand further back are skipped when they come to the head.
function R.bury(row, inGoodOrder)
  S.rows[row.epoch] = false
  S.changedRows[row.epoch] = true
  if row.total == 0 then return end
  local found = R.headsOf(row.epoch)
  for _, head in ipairs(found) do
    -- A replica that leaves in good order does not count against its unfinished messages.
    if inGoodOrder and head.isMessage then head.fence = 0 end
  end
  for _, head in ipairs(found) do
    if S.heads[head.key] == head then R.settle(head.key) end
  end
end

-- A message whose text is gone: it may be sent again.
function R.lose(entry)
  local owner = R.rowOf(entry.owner)
  if owner then R.addTicket(owner, entry, -1) end
  R.forget(entry, false)
end

-- Nothing waits behind no head, and no message is without its text.
function R.repairWaiting(hasTexts)
  local found = {}
  R.addWaitingOf(nil, found)
  for _, entry in ipairs(found) do
    if entry.isMessage and not hasTexts then
      call('ZREM', KEY.waiting, entry.member)
      R.lose(entry)
    elseif not R.headOf(entry.key) then
      call('ZREM', KEY.waiting, entry.member)
      entry.member, entry.more = nil, true
      R.setHead(entry.key, entry)
    end
  end
end

-- The server dropped some of the keys, each as a whole: what is left is made to fit together again.
function R.repair()
  local hasTexts = call('EXISTS', KEY.bodies) == 1
  R.repairWaiting(hasTexts)
  for _, found in ipairs(R.headsOf(nil)) do
    local head = found
    if head.isMessage and not hasTexts then
      R.lose(head)
      R.unoffer(head)
      if head.isOrphan then call('ZREM', KEY.orphans, head.key) end
      head = R.shift(head)
    end
    if head and head.isOrphan then
      R.addOrphan(head)
    elseif head and head.offered then
      call('HSET', KEY.offers, head.key, R.double(head.owner))
    end
    R.settle(found.key)
  end
end

-- Takes an entry of row out, wherever it stands.
function R.remove(row, entry)
  R.addTicket(row, entry, -1)
  if entry.isMessage then R.dropBody(entry) end
  if S.heads[entry.key] ~= entry then
    R.removeWaiting(entry)
    return
  end
  R.unoffer(entry)
  R.shift(entry)
  R.settle(entry.key)
end

-- Leaves a message in its place without an owner. At the head somebody is found at once.
function R.detach(row, entry)
  R.addTicket(row, entry, -1)
  local isHead = S.heads[entry.key] == entry
  if isHead then R.unoffer(entry) end
  entry.owner = 0
  if not isHead then
    R.rewrite(entry)
    return
  end
  S.changedHeads[entry.key] = true
  R.settle(entry.key)
end

-- ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- Buries the owner of the head if its lease is over, so that nobody queues behind the dead.
function R.clearWay(head)
  local owner = R.rowOf(head.owner)
  if not owner then R.settle(head.key)
  elseif owner ~= S.me and R.isOver(owner) then R.bury(owner) end
end

function R.enqueue(entry)
  entry.seq = R.stamp()
  entry.owner, entry.fence, entry.era, entry.batch = S.me.epoch, 0, 0, S.batch
  S.me.total = S.me.total + 1
  S.me.fresh = S.me.fresh + 1
  local head = R.headOf(entry.key)
  if head then
    R.queue(head, entry)
    S.fresh = entry
    R.clearWay(head)
    S.fresh = nil
  else
    R.setHead(entry.key, entry)
    if S.quarantineMs == 0 then R.hold(entry) end
  end
  return entry
end

function R.tryTake(key)
  if S.quarantineMs ~= 0 then return nil end
  local head = R.headOf(key)
  if head then R.clearWay(head) end
  if R.headOf(key) then return nil end
  return R.enqueue({ key = key })
end

function R.accept(key, id, body, maxAttempts, dedupeMs)
  if id then
    local name = R.nameOf(key, id)
    local found = R.idOf(name)
    if found == '' then return nil end
    if found then
      if unpackAs('>d', found) > now then return nil end
      S.remembered = S.remembered - 1
    end
    R.setId(name, '')
  end
  local entry = R.enqueue({
    key = key, isMessage = true, id = id, body = body, attempt = 1, maxAttempts = maxAttempts, dedupeMs = dedupeMs,
  })
  S.newBodies[#S.newBodies + 1] = R.double(entry.seq)
  S.newBodies[#S.newBodies + 1] = body
  return entry
end

-- Frees a message's id, or remembers it for its time when the message is done.
function R.forget(entry, isDone)
  if not entry.id then return end
  local name = R.nameOf(entry.key, entry.id)
  if not isDone then
    R.setId(name, false)
    return
  end
  S.count = S.count + 1
  S.remembered = S.remembered + 1
  R.setId(name, pack('>dd', now + entry.dedupeMs, S.count))
  S.newlyFinished[#S.newlyFinished + 1] = R.double(S.count) .. name
end

-- The entry seq of key, if the caller owns it.
function R.mine(key, seq)
  local head = R.headOf(key)
  if not head then return nil end
  local entry = head
  if head.seq ~= seq then entry = R.findWaiting(head, seq) end
  return entry and entry.owner == S.me.epoch and entry or nil
end

-- Ends messages that wait behind the head, whoever owns them: only the holder may, for nobody else runs here now.
function R.finishBehind(head, also)
  sort(also)
  local found = {}
  for at, seq in ipairs(also) do
    local entry = seq ~= also[at - 1] and seq ~= head.seq and R.findWaiting(head, seq)
    if entry and entry.isMessage then found[#found + 1] = entry end
  end
  for _, entry in ipairs(found) do
    local owner = R.rowOf(entry.owner)
    if owner then R.addTicket(owner, entry, -1) end
    R.removeWaiting(entry)
    R.dropBody(entry)
    R.forget(entry, true)
    if owner and owner ~= S.me then R.push(owner, 'look ' .. R.digits(owner.epoch)) end
  end
end

-- how: the small letters of apply. Returns the ticket, its fence when it held its key.
function R.release(key, seq, how, reason, also)
  local entry = R.mine(key, seq)
  if entry == nil then return nil end
  local isHeld = S.heads[key] == entry and R.isGranted(entry)
  local released = { seq = seq, fence = isHeld and entry.fence or 0 }
  if isHeld and also and #also > 0 then R.finishBehind(entry, also) end
  if not entry.isMessage then
    R.remove(S.me, entry)
    return released
  end
  if how == 'b' or how == 'l' then
    entry.error = reason or entry.error
    if how == 'l' and entry.fence ~= 0 then R.countAttempt(entry, true) end
    R.detach(S.me, entry)
  elseif how == 'p' then
    entry.fence = 0
    S.passing = entry
    R.detach(S.me, entry)
    S.passing = nil
  else
    R.forget(entry, how == 'd')
    R.remove(S.me, entry)
  end
  if entry.suspect and how ~= 'p' then R.tryNextSuspect() end
  return released
end

function R.tellHolder(key, note)
  local head = R.headOf(key)
  if not head or not R.isGranted(head) then return nil end
  local owner = R.rowOf(head.owner)
  if not owner or owner.replaced then return nil end
  local list = R.notesOf(owner.epoch)
  if #list >= MOST_NOTES then return nil end
  list[#list + 1] = { R.stamp(), key, head.seq, note }
  R.setNotes(owner.epoch, list)
  R.push(owner, 'look ' .. R.digits(owner.epoch))
  return head
end

-- Takes a message out of those that are parked.
function R.unpark(key, seq)
  local name = R.double(seq)
  local raw = call('HGET', KEY.parked, name)
  if not raw then return nil end
  local message = cmsgpack.unpack(raw)
  if message[1] ~= key then return nil end
  call('HDEL', KEY.parked, name)
  return message
end

-- Nobody owns it until it is the head.
function R.replay(key, seq, maxAttempts, dedupeMs)
  local message = R.unpark(key, seq)
  if not message then return nil end
  local entry = {
    key = key, seq = R.stamp(), owner = 0, fence = 0, era = 0, batch = 0, isMessage = true, id = message[2] or nil,
    body = message[3], attempt = 1, maxAttempts = maxAttempts, dedupeMs = dedupeMs,
  }
  S.newBodies[#S.newBodies + 1] = R.double(entry.seq)
  S.newBodies[#S.newBodies + 1] = entry.body
  local taken = { seq = entry.seq, fence = 0 }
  local head = R.headOf(key)
  if head then
    R.queue(head, entry)
  else
    R.setHead(key, entry)
    R.settle(key)
  end
  return taken
end

function R.drop(key, seq)
  local message = R.unpark(key, seq)
  if not message then return nil end
  if message[2] then R.setId(R.nameOf(key, message[2]), false) end
  return { seq = seq, fence = 0 }
end
`;
