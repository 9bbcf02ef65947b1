/** A look at the record, for operators and tests: one page of one part for each call. Reads only. */
export const VIEW = String.raw`
local part, cursor = ARGV[1], ARGV[2]

local function viewMesh()
  readMesh(unpack(call('HMGET', MESH, '#', '@')))
  local page = {
    format('%.17g %.17g %.17g %.0f %d %.0f %d', formatNumber, leaseMs, shards, era, bit01(quarantineMs ~= 0),
      remembered, call('ZCARD', PACES)),
  }
  for _, row in ipairs(liveRows()) do
    page[#page + 1] = format('%.0f %.17g %d %.0f', row.epoch, now - row.beat, bit01(row.replaced), row.total)
    page[#page + 1] = row.replicaId
  end
  return page
end

local function scan(key)
  local found = call('HSCAN', key, cursor, 'COUNT', 256)
  return { found[1] }, found[2]
end

local function viewQueues()
  local page, list = scan(HEADS)
  for at = 1, #list, 2 do
    local key, head = list[at], readHead(list[at], list[at + 1])
    local prefix, behind = prefixOf(key), 0
    if head.more then behind = call('ZLEXCOUNT', WAITING, '[' .. prefix, '(' .. prefix .. '\255') end
    page[#page + 1] = format('%.0f %.0f %.0f %d', head.seq, head.owner, head.fence, behind)
    page[#page + 1] = key
  end
  return page
end

local function viewParked()
  local page, list = scan(PARKED)
  for at = 1, #list, 2 do
    local key, id, body, attempts, reason = unpack(cmsgpack.unpack(list[at + 1]))
    page[#page + 1] = format('%.0f %d %d %d', (unpackAs('>d', list[at])), attempts, bit01(id), bit01(reason))
    page[#page + 1] = key
    page[#page + 1] = id or ''
    page[#page + 1] = body
    page[#page + 1] = reason or ''
  end
  return page
end

-- What waits behind the head seq of key: for its holder.
local function viewWaiting(key, seq, limit)
  local head = headOf(key)
  local page, found, prefix, from = {}, {}, prefixOf(key), 0
  if not head or head.seq ~= seq or not head.more then return page end
  repeat
    local members = call('ZRANGEBYLEX', WAITING, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', from, 256)
    from = from + 256
    for _, member in ipairs(members) do
      local entry = readWaiting(key, member, #prefix + 1)
      if entry.isMessage and #found < limit then found[#found + 1] = entry end
    end
  until #members < 256 or #found >= limit
  for _, entry in ipairs(found) do
    page[#page + 1] = format('%.0f %d %d', entry.seq, entry.attempt, bit01(entry.id))
    page[#page + 1] = entry.id or ''
    page[#page + 1] = call('HGET', BODIES, double(entry.seq)) or ''
  end
  return page
end

if part == 'mesh' then return viewMesh() end
if part == 'waiting' then return viewWaiting(ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])) end
if part == 'queues' then return viewQueues() end
return viewParked()
`;
