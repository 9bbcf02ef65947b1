/**
 * The second part: the operations that make up nearly all of a batch, without the functions of the rules, whose mere
 * definition costs more than they do. Tickets and messages of idle keys come and go here. The first operation that is
 * anything else is left, with all that follow it, to the rules.
 */
export const QUICK = String.raw`
-- How far the batch has come: the next operation, where what else it needs begins, and the results so far. A result is
-- '+' for a place and a fence that are the two stamps after the last that was told, '~' for a place that is the next
-- one and waits, '-' for none, else seq and fence, counted from base.
local letters, nextOp, nextArg, results, base, lastTold = '', 1, 0, {}, 0, 0
-- How many tickets the caller has, and how many of them this batch brought.
local total, fresh = 0, 0
local isQuick, isDone = false, false

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
  if base < now * 1000 - 1 then base = now * 1000 - 1 end
  lastTold = base
  -- Only where nothing but the batch is to be judged: the server is the same, nothing is in quarantine, the caller is
  -- known, proven and not replaced, and the batch is new.
  if run == storedRun and quarantineMs == 0 and known[3] and known[4] then
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
    elseif letter == 'd' or letter == 'b' or letter == 'p' or letter == 'w' then at = at + 1
    elseif letter ~= 'r' and letter ~= 't' then break end
  end
  local found = #names > 0 and call('HMGET', KEY.ids, unpack(names))
  for index, name in ipairs(names) do ids[name] = found[index] end
end

if isQuick then
  fresh = 0
  local owner, batch = pack('>d', tonumber(ARGV[5])), pack('>d', tonumber(ARGV[7]))
  local eraAndBatch = pack('>d', era) .. batch

  while nextOp <= #letters do
    local letter, key = sub(letters, nextOp, nextOp), ARGV[8 + nextOp]
    local raw, result = raws[key], nil

    if letter == 'r' or letter == 't' then
      if not raw then
        raws[key] = pack('>Bdc0dc0', 0, lastTold + 1, owner, lastTold + 2, eraAndBatch)
        result = '+'
      end

    elseif letter == 'd' or letter == 'w' or letter == 'b' or letter == 'p' then
      local flags = raw and string.byte(raw)
      if not raw then
        result = '-'
      elseif (flags == 0 or ((flags == 4 or flags == 12) and (letter == 'd' or letter == 'w')))
        and sub(raw, 2, 17) == pack('>d', tonumber(ARGV[nextArg])) .. owner then
        raws[key], changedRaws[key] = false, true
        total = total - 1
        if sub(raw, 34, 41) == batch then fresh = fresh - 1 end
        if flags ~= 0 then goneBodies[#goneBodies + 1] = sub(raw, 2, 9) end
        if flags == 12 then
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
        result = '-'
      end
      if result then nextArg = nextArg + 1 end

    elseif letter == 'a' or letter == 'm' then
      local at, name, found, text = nextArg, nil, false, ''
      if letter == 'a' then
        name = #key .. ':' .. key .. ARGV[at]
        found = ids[name]
        text = pack('>I4', #ARGV[at]) .. ARGV[at]
        at = at + 1
      end
      if found == '' or (found and unpackAs('>d', found) > now) then
        result = '-'
      elseif not raw then
        if found then remembered = remembered - 1 end
        if name then ids[name], changedIds[name] = '', true end
        local seq = pack('>d', lastTold + 1)
        raws[key] = pack('>Bc0c0dc0ddd', name and 12 or 4, seq, owner, lastTold + 2, eraAndBatch, 1,
          tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])) .. text
        newBodies[#newBodies + 1] = seq
        newBodies[#newBodies + 1] = ARGV[at]
        result = '+'
      end
      if result then nextArg = at + 3 end
    end

    if not result then break end
    results[nextOp] = result
    nextOp = nextOp + 1
    if result == '+' then
      changedRaws[key] = true
      lastTold = lastTold + 2
      last = lastTold
      total = total + 1
      fresh = fresh + 1
    end
  end
  isDone = nextOp > #letters
end

if isDone then
  answer = { format('applied %.0f %.0f 0 0 0 ', era, base) .. table.concat(results, ' ') }
  meshSet[1] = 'b' .. ARGV[5]
  meshSet[2] = pack('>ddd', tonumber(ARGV[7]), total, fresh) .. answer[1]
  if sub(known[4], 25) == '*' then call('HDEL', KEY.answers, ARGV[5]) end
end

if not isDone then
`;
