/** A look at the record, for operators and tests: one page of one part for each call. Reads only. */
export const VIEW = String.raw`
local part, cursor = ARGV[3], ARGV[4]

function R.viewMesh()
  local page = {
    format('%.17g %.17g %.17g %.0f %d %.0f %d', S.formatNumber, S.leaseMs, S.shards, S.era, R.bit01(S.quarantineMs ~= 0),
      S.remembered, call('ZCARD', KEY.paces)),
  }
  for _, row in ipairs(R.liveRows()) do
    page[#page + 1] = format('%.0f %.17g %d %.0f', row.epoch, now - row.beat, R.bit01(row.replaced), row.total)
    page[#page + 1] = row.replicaId
  end
  return page
end

function R.scan(key)
  local found = call('HSCAN', key, cursor, 'COUNT', 256)
  return { found[1] }, found[2]
end

function R.viewQueues()
  local page, list = R.scan(KEY.heads)
  for at = 1, #list, 2 do
    local key, head = list[at], R.readHead(list[at], list[at + 1])
    local prefix, behind = R.prefixOf(key), 0
    if head.more then behind = call('ZLEXCOUNT', KEY.waiting, '[' .. prefix, '(' .. prefix .. '\255') end
    page[#page + 1] = format('%.0f %.0f %.0f %d', head.seq, head.owner, head.fence, behind)
    page[#page + 1] = key
  end
  return page
end

function R.viewParked()
  local page, list = R.scan(KEY.parked)
  for at = 1, #list, 2 do
    local key, id, body, attempts, reason = unpack(cmsgpack.unpack(list[at + 1]))
    page[#page + 1] = format('%.0f %d %d %d', (unpackAs('>d', list[at])), attempts, R.bit01(id), R.bit01(reason))
    page[#page + 1] = key
    page[#page + 1] = id or ''
    page[#page + 1] = body
    page[#page + 1] = reason or ''
  end
  return page
end

-- What waits behind the head seq of key: for its holder.
function R.viewWaiting(key, seq, limit)
  local head = R.headOf(key)
  local page, found, prefix, from = {}, {}, R.prefixOf(key), 0
  if not head or head.seq ~= seq or not head.more then return page end
  repeat
    local members = call('ZRANGEBYLEX', KEY.waiting, '[' .. prefix, '(' .. prefix .. '\255', 'LIMIT', from, 256)
    from = from + 256
    for _, member in ipairs(members) do
      local entry = R.readWaiting(key, member, #prefix + 1)
      if entry.isMessage and #found < limit then found[#found + 1] = entry end
    end
  until #members < 256 or #found >= limit
  for _, entry in ipairs(found) do
    page[#page + 1] = format('%.0f %d %d', entry.seq, entry.attempt, R.bit01(entry.id))
    page[#page + 1] = entry.id or ''
    page[#page + 1] = call('HGET', KEY.bodies, R.double(entry.seq)) or ''
  end
  return page
end

if part == 'mesh' then return R.viewMesh() end
if part == 'waiting' then return R.viewWaiting(ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])) end
if part == 'queues' then return R.viewQueues() end
return R.viewParked()
`;
