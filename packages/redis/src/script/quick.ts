/**
 * The second part: the operations that make up nearly all of a batch, without the functions of the rules, whose mere
 * definition costs more than they do. Tickets and messages come and go here, and are handed on, among replicas that are
 * alive. The first operation that is anything else is left, with all that follow it, to the rules.
 */
export const QUICK = String.raw`
-- How far the batch has come: the next operation, where what else it needs begins, and the results so far. A result is
-- '+' for a place and a fence that are the two stamps after the last that was told, '~' for a place that is the next
-- one and waits, '.' for one that was let go and had the fence next to its seq, '-' for none, else seq and fence, counted
-- from base.
local letters, nextOp, nextArg, results, base, lastTold = '', 1, 0, {}, 0, 0
-- How many tickets the caller has, and how many of them this batch brought.
local total, fresh = 0, 0
local isQuick, isDone = false, false
-- The last stamp given; what is queued behind heads and not yet written.
local stampAt, members = 0, {}
-- Whether a write that needs no memory comes first by itself: see frees in start.ts.
local hasFreed = false

if step == 'apply' then
  letters = ARGV[8]
  local to = 8 + #letters
  nextArg = to + 1
  for from = 9, to, 4000 do
    local stop = from + 3999
    if stop > to then stop = to end
    local found = call('HMGET', KEY.heads, unpack(ARGV, from, stop))
    for at = from, stop do raws[ARGV[at]] = found[at - from + 1] end
  end
  base = last
  if base < clock - 1 then base = clock - 1 end
  lastTold, stampAt = base, base
  -- Only where nothing but the batch is to be judged: the server is the same, nothing is in quarantine, the caller is
  -- known, proven and not replaced, and the batch is new.
  if run == storedRun and not isPartLost and quarantineMs == 0 and known[3] and known[4] then
    local instance, before = ARGV[6], 0
    before, total, fresh = unpackAs('>ddd', known[4])
    isQuick = tonumber(ARGV[7]) > before
      and sub(known[3], 1, 6 + #instance) == '\1\0' .. pack('>I4', #instance) .. instance
  end
end

if isQuick and string.find(letters, 'a', 1, true) then
  -- The ids that come in, all at once.
  local names, at = {}, nextArg
  for op = 1, #letters do
    local letter = sub(letters, op, op)
    if letter == 'a' then
      local key = ARGV[8 + op]
      names[#names + 1] = #key .. ':' .. key .. ARGV[at]
      at = at + 4
    elseif letter == 'm' then at = at + 3
    elseif letter == 'd' or letter == 'b' or letter == 'l' or letter == 'p' or letter == 'w' then at = at + 1
    elseif letter ~= 'r' and letter ~= 't' then break end
  end
  local found = #names > 0 and call('HMGET', KEY.ids, unpack(names))
  for index, name in ipairs(names) do ids[name] = found[index] end
end

if isQuick then
  fresh = 0
  local owner, batch = pack('>d', tonumber(ARGV[5])), pack('>d', tonumber(ARGV[7]))
  local eraText = pack('>d', era)
  local eraAndBatch = eraText .. batch
  local rowsByOwner = {}

  -- Entries stay packed here, as record.ts packs them. A head is its flags in byte 1, seq from 2, owner from 10, fence from
  -- 18, era from 26, batch from 34; of a message, attempt from 42, attempts allowed from 50, time to remember from 58, the
  -- length of its id from 66, its id from 70. What waits is key, seq, owner, batch, flags and message. Flags: 1 somebody
  -- waits behind, 2 offered, 4 a message, 8 it has an id, 16 it was returned with a reason, 32 it is suspect.
  while nextOp <= #letters do
    local letter, key = sub(letters, nextOp, nextOp), ARGV[8 + nextOp]
    -- isFree: whether this part may do it. Nothing is changed before that is known.
    local raw, result, isFree = raws[key], nil, true
    local flags = raw and string.byte(raw)

    if letter == 'd' or letter == 'w' or letter == 'b' or letter == 'p' then
      local behind, nextRow
      local seq, headOwner, fence, givenIn, givenBatch
      if raw then seq, headOwner, fence, givenIn, givenBatch = unpackAs('>dc8dc8c8', raw, 2) end
      if not raw then
        result = '-'
      elseif flags > 15 or flags % 4 > 1 or (flags > 1 and letter ~= 'd' and letter ~= 'w')
        or headOwner ~= owner or seq ~= tonumber(ARGV[nextArg]) then
        -- Offered or returned before, to be passed on, or no head of the caller's.
        isFree = false
      elseif flags % 2 == 1 then
        -- Who is next has to be alive: else it is the rules' business.
        if #members > 0 then
          callMany('ZADD', KEY.waiting, members)
          members = {}
        end
        local prefix = #key .. ':' .. key
        behind = call('ZRANGEBYLEX', KEY.waiting, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', 0, 2)
        behind.at = #prefix
        if behind[1] then
          local nextOwner = sub(behind[1], behind.at + 9, behind.at + 16)
          if nextOwner ~= owner then
            nextRow = rowsByOwner[nextOwner]
            if nextRow == nil then
              nextRow = call('HGET', KEY.mesh, format('r%.0f', (unpackAs('>d', nextOwner))))
              rowsByOwner[nextOwner] = nextRow
            end
            isFree = nextRow and string.byte(nextRow, 2) == 0
          end
        end
      end
      if raw and isFree then
        -- A fence that was not confirmed in this era holds nothing.
        if givenIn ~= eraText then result = format('%d', seq - base)
        elseif fence == seq + 1 then result = '.'
        else result = format('%d,%d', seq - base, fence - base) end
        total = total - 1
        if givenBatch == batch then fresh = fresh - 1 end
        if flags > 1 then goneBodies[#goneBodies + 1] = sub(raw, 2, 9) end
        if flags > 11 then
          local name = #key .. ':' .. key .. sub(raw, 70)
          changedIds[name] = true
          if letter == 'w' then
            ids[name] = false
          else
            count = count + 1
            remembered = remembered + 1
            local number = pack('>d', count)
            ids[name] = pack('>d', now + unpackAs('>d', raw, 58)) .. number
            newlyFinished[#newlyFinished + 1] = number .. name
          end
        end
        raws[key], changedRaws[key], hasFreed = false, true, true
        if behind and behind[1] then
          local member, at = behind[1], behind.at
          call('ZREM', KEY.waiting, member)
          stampAt = stampAt + 1
          last = stampAt
          raws[key] = pack('>Bc0dc0', string.byte(member, at + 25) + (behind[2] and 1 or 0), sub(member, at + 1, at + 16),
            stampAt, eraText) .. sub(member, at + 17, at + 24) .. sub(member, at + 26)
          local seq = unpackAs('>d', member, at + 1)
          if nextRow then
            pushes[#pushes + 1] = (unpackAs('>I4c0', nextRow, 3))
            pushes[#pushes + 1] = format('grant %.0f %.0f %.0f %.0f ', unpackAs('>d', member, at + 9), era, seq, stampAt)
              .. key
          else
            quickGrants[#quickGrants + 1] = { key = key, seq = seq, fence = stampAt }
          end
        end
      end
      if result then nextArg = nextArg + 1 end

    elseif letter == 'r' or letter == 't' or letter == 'a' or letter == 'm' then
      local at, name, found, text = nextArg, nil, false, ''
      if letter == 'a' then
        name = #key .. ':' .. key .. ARGV[at]
        found = ids[name]
        text = pack('>I4', #ARGV[at]) .. ARGV[at]
        at = at + 1
      end
      if raw then
        -- The head's owner has to be alive, and nobody to be buried.
        local headOwner = sub(raw, 10, 17)
        if headOwner ~= owner then
          local row = rowsByOwner[headOwner]
          if row == nil then
            row = call('HGET', KEY.mesh, format('r%.0f', (unpackAs('>d', headOwner))))
            rowsByOwner[headOwner] = row
          end
          isFree = row and now - unpackAs('>d', row, unpackAs('>I4', row, 3) + 16) <= leaseMs
        end
      end
      if found == '' or (found and unpackAs('>d', found) > now) or (isFree and raw and letter == 't') then
        result = '-'
      elseif isFree then
        if found then remembered = remembered - 1 end
        if name then ids[name], changedIds[name] = '', true end
        local message, own = '', 0
        if letter == 'a' or letter == 'm' then
          own = name and 12 or 4
          message = pack('>ddd', 1, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])) .. text
          newBodies[#newBodies + 1] = pack('>d', stampAt + 1)
          newBodies[#newBodies + 1] = ARGV[at]
        end
        if not raw then
          raws[key] = pack('>Bdc0dc0', own, stampAt + 1, owner, stampAt + 2, eraAndBatch) .. message
          changedRaws[key] = true
          result = stampAt == lastTold and '+' or format('%d,%d', stampAt + 1 - base, stampAt + 2 - base)
          stampAt = stampAt + 2
        else
          members[#members + 1] = 0
          members[#members + 1] = #key .. ':' .. key .. pack('>dc0c0B', stampAt + 1, owner, batch, own) .. message
          if flags % 2 == 0 then
            raws[key] = string.char(flags + 1) .. sub(raw, 2)
            changedRaws[key] = true
          end
          result = stampAt == lastTold and '~' or format('%d', stampAt + 1 - base)
          stampAt = stampAt + 1
        end
        if #result == 1 and (result == '+' or result == '~') then lastTold = stampAt end
        last = stampAt
        total = total + 1
        fresh = fresh + 1
      end
      if result then
        if letter == 'a' or letter == 'm' then nextArg = at + 3 end
      end
    end

    if not result then break end
    results[nextOp] = result
    nextOp = nextOp + 1
  end
  isDone = nextOp > #letters
  if #members > 0 then callMany('ZADD', KEY.waiting, members) end
end

if isDone then
  if frees and not hasFreed then call('HDEL', KEY.mesh, '-') end
  answer = { format('applied %.0f %.0f %d 0 0 ', era, base, #quickGrants) .. table.concat(results, ' ') }
  for index, grant in ipairs(quickGrants) do
    answer[2 * index] = format('%.0f %.0f', grant.seq, grant.fence)
    answer[2 * index + 1] = grant.key
  end
  local stored = answer[1]
  if #quickGrants > 0 then stored = '=' .. cmsgpack.pack(answer) end
  meshSet[1] = 'b' .. ARGV[5]
  meshSet[2] = pack('>ddd', tonumber(ARGV[7]), total, fresh) .. stored
  if sub(known[4], 25) == '*' then call('HDEL', KEY.answers, ARGV[5]) end
end

if not isDone then
`;
