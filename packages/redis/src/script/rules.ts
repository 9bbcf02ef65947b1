/**
 * The second part: what may be decided in a step, who is next, who is skipped, who takes over a message, who is buried.
 * Rule by rule the reference of @botmesh/core (coordination/record/step.ts, queues.ts and operations.ts).
 */
export const RULES = String.raw`
local ADOPT_SHARE, MOST_NOTES = 64, 256

-- The caller's row and its batch; the entry being enqueued, whose grant is no news; the one being passed on.
local me, batch, fresh, passing = nil, 0, nil, nil
local stampBefore = 0
local grants, adopted, parked = {}, {}, {}

local settle, bury

-- ── Stamps and eras ──────────────────────────────────────────────────────────────────────────────────────────────────

local function stamp()
  local atLeast = now * 1000
  last = last + 1
  if last < atLeast then last = atLeast end
  return last
end

local function quarantineOf(lease) return (2 * lease) / 3 + lease / 24 end

local function startEra(lease)
  era = tonumber(sub(redis.sha1hex(run .. ' ' .. digits(stamp())), 1, 13), 16)
  if era == 0 then era = 1 end
  quarantineMs = lease == 0 and math.huge or quarantineOf(lease)
  if lease ~= 0 then last = last + floor(quarantineMs * 100) end
  for _, row in ipairs(liveRows()) do
    row.since = now
    changedRows[row.epoch] = true
  end
  isMeshChanged = true
end

-- Whose data this is: asked of the server itself, unless the client says that it may not be asked.
local function serverRun()
  local given = ARGV[2]
  if given == '' then return string.match(call('INFO', 'server'), 'run_id:(%w+)') end
  if sub(given, 1, 1) == '=' and run then return run end
  return sub(given, 2)
end

local function begin()
  stampBefore = last
  local found = serverRun()
  if found == run then return end
  run = found
  startEra(leaseMs)
end

local function noteSeen(seen)
  if seen > last then last = seen end
end

local function isWitness(row)
  local gap = now - row.beat
  return gap >= 0 and gap <= leaseMs / 3 and now - row.since >= leaseMs
end

local function isOver(row)
  return me ~= nil and now - row.beat > leaseMs and isWitness(me)
end

-- ── Tickets ──────────────────────────────────────────────────────────────────────────────────────────────────────────

local function currentBatch(row)
  if row == me and batch ~= 0 then return batch end
  return row.batch
end

local function addTicket(row, entry, by)
  row.total = row.total + by
  if entry.batch ~= 0 and entry.batch == currentBatch(row) then row.fresh = row.fresh + by end
  changedBatches[row.epoch] = true
end

local function isGranted(entry) return entry.fence ~= 0 and entry.era == era end

local function push(row, text)
  pushes[#pushes + 1] = row.instance
  pushes[#pushes + 1] = text
end

local function hold(entry)
  entry.fence = stamp()
  entry.era = era
  changedHeads[entry.key] = true
end

local function tell(entry) grants[#grants + 1] = { key = entry.key, seq = entry.seq, fence = entry.fence } end

local function grant(entry, owner)
  hold(entry)
  if entry == fresh then return end
  if owner == me then
    tell(entry)
  else
    push(owner, format('grant %.0f %.0f %.0f %.0f ', owner.epoch, era, entry.seq, entry.fence) .. entry.key)
  end
end

local function unoffer(entry)
  if not entry.offered then return end
  entry.offered = false
  call('HDEL', OFFERS, entry.key)
  changedHeads[entry.key] = true
end

local function bodyOf(entry)
  if entry.body == nil then entry.body = call('HGET', BODIES, double(entry.seq)) or '' end
  return entry.body
end

local function dropBody(entry) goneBodies[#goneBodies + 1] = double(entry.seq) end

local function offer(entry)
  bodyOf(entry)
  adopted[#adopted + 1] = { entry = entry, seq = entry.seq, fence = entry.fence, attempt = entry.attempt }
end

-- The caller if it can and does not pass the entry on just now, else the live replica with the fewest tickets.
local function chooseAdopter(entry)
  if me and me.adopts and passing ~= entry and #adopted < ADOPT_SHARE then return me end
  local best
  for _, row in ipairs(liveRows()) do
    if row.adopts and row.proven and not row.replaced and row ~= me then
      if best == nil or row.total < best.total then best = row end
    end
  end
  return best
end

-- The head is a message that is given up: keeps it aside.
local function park(entry)
  local attempts = entry.attempt - 1
  local id, reason = entry.id or false, entry.error or false
  call('HSET', PARKED, double(entry.seq), cmsgpack.pack({ entry.key, id, bodyOf(entry), attempts, reason }))
  parked[#parked + 1] = { key = entry.key, id = id, attempts = attempts, error = reason }
  dropBody(entry)
  shift(entry)
end

-- Gives the head, a message whose owner is gone, to a live replica, or parks it. False when nobody can take it now.
local function passOn(entry)
  if entry.fence ~= 0 then
    entry.fence = 0
    entry.attempt = entry.attempt + 1
  end
  local former = rowOf(entry.owner)
  if former then addTicket(former, entry, -1) end
  unoffer(entry)
  entry.owner = 0
  changedHeads[entry.key] = true
  if entry.attempt > entry.maxAttempts then
    park(entry)
    return true
  end
  if quarantineMs ~= 0 then return false end
  local adopter = chooseAdopter(entry)
  if adopter == nil then return false end
  if entry.isOrphan then call('ZREM', ORPHANS, entry.key) end
  entry.isOrphan = false
  entry.owner = adopter.epoch
  entry.batch = adopter == me and batch or 0
  entry.offered = true
  call('HSET', OFFERS, entry.key, double(adopter.epoch))
  addTicket(adopter, entry, 1)
  hold(entry)
  if adopter == me then offer(entry) else push(adopter, 'look ' .. digits(adopter.epoch)) end
  return true
end

local function leaveOrphan(entry)
  if entry.isOrphan then return end
  entry.isOrphan = true
  count = count + 1
  call('ZADD', ORPHANS, 'NX', count, entry.key)
end

-- Brings the head of key to a live owner and grants it. Every step that changes a head ends here.
settle = function(key)
  local head = headOf(key)
  while head do
    local owner = rowOf(head.owner)
    if owner then
      if isGranted(head) then return end
      -- A replaced replica may still believe in an old grant until it leaves or its lease is over.
      if owner.replaced and head.fence ~= 0 then return end
      if not owner.replaced then
        if quarantineMs == 0 then grant(head, owner) end
        return
      end
    end
    if head.isMessage then
      if not passOn(head) then
        leaveOrphan(head)
        return
      end
      head = headOf(key)
    else
      if owner then addTicket(owner, head, -1) end
      head = shift(head)
    end
  end
end

-- R1: removing the row is the death. Those of its tickets that stand further back are skipped when they come to the head.
bury = function(row, inGoodOrder)
  rows[row.epoch] = false
  changedRows[row.epoch] = true
  if row.total == 0 then return end
  local found = headsOf(row.epoch)
  for _, head in ipairs(found) do
    -- A replica that leaves in good order does not count against its unfinished messages.
    if inGoodOrder and head.isMessage then head.fence = 0 end
  end
  for _, head in ipairs(found) do
    if heads[head.key] == head then settle(head.key) end
  end
end

-- Takes an entry of row out, wherever it stands.
local function remove(row, entry)
  addTicket(row, entry, -1)
  if entry.isMessage then dropBody(entry) end
  if heads[entry.key] ~= entry then
    removeWaiting(entry)
    return
  end
  unoffer(entry)
  shift(entry)
  settle(entry.key)
end

-- Leaves a message in its place without an owner. At the head somebody is found at once.
local function detach(row, entry)
  addTicket(row, entry, -1)
  local isHead = heads[entry.key] == entry
  if isHead then unoffer(entry) end
  entry.owner = 0
  if not isHead then
    rewrite(entry)
    return
  end
  changedHeads[entry.key] = true
  settle(entry.key)
end

-- ── Operations ───────────────────────────────────────────────────────────────────────────────────────────────────────

-- Buries the owner of the head if its lease is over, so that nobody queues behind the dead.
local function clearWay(head)
  local owner = rowOf(head.owner)
  if not owner then settle(head.key)
  elseif owner ~= me and isOver(owner) then bury(owner) end
end

local function enqueue(entry)
  entry.seq = stamp()
  entry.owner, entry.fence, entry.era, entry.batch = me.epoch, 0, 0, batch
  me.total = me.total + 1
  me.fresh = me.fresh + 1
  local head = headOf(entry.key)
  if head then
    queue(head, entry)
    fresh = entry
    clearWay(head)
    fresh = nil
  else
    setHead(entry.key, entry)
    if quarantineMs == 0 then hold(entry) end
  end
  return entry
end

local function tryTake(key)
  if quarantineMs ~= 0 then return nil end
  local head = headOf(key)
  if head then clearWay(head) end
  if headOf(key) then return nil end
  return enqueue({ key = key })
end

local function accept(key, id, body, maxAttempts, dedupeMs)
  if id then
    local name = nameOf(key, id)
    local found = idOf(name)
    if found == '' then return nil end
    if found then
      if unpackAs('>d', found) > now then return nil end
      remembered = remembered - 1
    end
    setId(name, '')
  end
  local entry = enqueue({
    key = key, isMessage = true, id = id, body = body, attempt = 1, maxAttempts = maxAttempts, dedupeMs = dedupeMs,
  })
  newBodies[#newBodies + 1] = double(entry.seq)
  newBodies[#newBodies + 1] = body
  return entry
end

-- Frees a message's id, or remembers it for its time when the message is done.
local function forget(entry, isDone)
  if not entry.id then return end
  local name = nameOf(entry.key, entry.id)
  if not isDone then
    setId(name, false)
    return
  end
  count = count + 1
  remembered = remembered + 1
  setId(name, pack('>dd', now + entry.dedupeMs, count))
  newlyFinished[#newlyFinished + 1] = double(count) .. name
end

-- The entry seq of key, if the caller owns it.
local function mine(key, seq)
  local head = headOf(key)
  if not head then return nil end
  local entry = head
  if head.seq ~= seq then entry = findWaiting(head, seq) end
  return entry and entry.owner == me.epoch and entry or nil
end

-- Ends messages that wait behind the head, whoever owns them: only the holder may, for nobody else runs here now.
local function finishBehind(head, also)
  sort(also)
  local found = {}
  for at, seq in ipairs(also) do
    local entry = seq ~= also[at - 1] and seq ~= head.seq and findWaiting(head, seq)
    if entry and entry.isMessage then found[#found + 1] = entry end
  end
  for _, entry in ipairs(found) do
    local owner = rowOf(entry.owner)
    if owner then addTicket(owner, entry, -1) end
    removeWaiting(entry)
    dropBody(entry)
    forget(entry, true)
    if owner and owner ~= me then push(owner, 'look ' .. digits(owner.epoch)) end
  end
end

-- how: the small letters of apply. Returns the ticket when there was something to end with it, and it held its key.
local function release(key, seq, how, reason, also)
  local entry = mine(key, seq)
  if entry == nil then return nil end
  local heeded
  if also and #also > 0 and heads[key] == entry and isGranted(entry) then
    heeded = { seq = seq, fence = entry.fence }
    finishBehind(entry, also)
  end
  if not entry.isMessage then
    remove(me, entry)
  elseif how == 'b' then
    entry.error = reason or entry.error
    detach(me, entry)
  elseif how == 'p' then
    entry.fence = 0
    passing = entry
    detach(me, entry)
    passing = nil
  else
    forget(entry, how == 'd')
    remove(me, entry)
  end
  return heeded
end

local function tellHolder(key, note)
  local head = headOf(key)
  if not head or not isGranted(head) then return nil end
  local owner = rowOf(head.owner)
  if not owner or owner.replaced then return nil end
  local list = notesOf(owner.epoch)
  if #list >= MOST_NOTES then return nil end
  list[#list + 1] = { stamp(), key, head.seq, note }
  setNotes(owner.epoch, list)
  push(owner, 'look ' .. digits(owner.epoch))
  return head
end

-- Takes a message out of those that are parked.
local function unpark(key, seq)
  local name = double(seq)
  local raw = call('HGET', PARKED, name)
  if not raw then return nil end
  local message = cmsgpack.unpack(raw)
  if message[1] ~= key then return nil end
  call('HDEL', PARKED, name)
  return message
end

-- Nobody owns it until it is the head.
local function replay(key, seq, maxAttempts, dedupeMs)
  local message = unpark(key, seq)
  if not message then return nil end
  local entry = {
    key = key, seq = stamp(), owner = 0, fence = 0, era = 0, batch = 0, isMessage = true, id = message[2] or nil,
    body = message[3], attempt = 1, maxAttempts = maxAttempts, dedupeMs = dedupeMs,
  }
  newBodies[#newBodies + 1] = double(entry.seq)
  newBodies[#newBodies + 1] = entry.body
  local taken = { seq = entry.seq, fence = 0 }
  local head = headOf(key)
  if head then
    queue(head, entry)
  else
    setHead(key, entry)
    settle(key)
  end
  return taken
end

local function drop(key, seq)
  local message = unpark(key, seq)
  if not message then return nil end
  if message[2] then setId(nameOf(key, message[2]), false) end
  return { seq = seq, fence = 0 }
end
`;
