/** The first part of the steps' script: the moment, the server, and what of the mesh every step needs. */
export const START = `
local call, pack, unpackAs = redis.call, struct.pack, struct.unpack
local sub, format, floor, sort = string.sub, string.format, math.floor, table.sort

local step = ARGV[1]
local time = call('TIME')
local now = time[1] * 1000 + floor(time[2] / 1000)
-- Stamps are at least this. A clock beyond the year 2112 counts for nothing: stamps have to stay safe integers.
local clock = now * 1000
if clock > 4503599627370496 then clock = 0 end

-- The mesh, its counters, the caller's row, its batch and the answer to that.
local known
if step == 'join' or step == 'view' then known = call('HMGET', KEY.mesh, '#', '@')
else known = call('HMGET', KEY.mesh, '#', '@', 'r' .. ARGV[5], 'b' .. ARGV[5]) end

-- Of one life of the data; leaseMs is 0 before the first join.
local era, quarantineMs, formatNumber, leaseMs, shards, storedRun = 0, 0, 0, 0, 0, false
if known[1] then
  era, quarantineMs, formatNumber, leaseMs, shards = unpackAs('>ddddd', known[1])
  storedRun = sub(known[1], 41)
end
-- How many of the keys there are, but for the mesh and the paces: nobody else makes or removes one.
local function countKeys() return call('EXISTS', unpack(KEYS, 2, 11)) end
-- The last stamp given; the last number given to a finished or orphaned one; how many finished ids are remembered.
local last, count, remembered = 0, 0, 0
-- Whether the server has dropped a key since the last step.
local isPartLost = false
if known[2] then
  local left
  last, count, remembered, left = unpackAs('>dddd', known[2])
  isPartLost = left ~= countKeys()
end

-- Whose data this is: asked of the server itself, unless the client says that it may not be asked.
local run = ARGV[2]
if run == '' then
  -- A primary takes a new id when its process starts, when it is promoted, and when REPLICAOF gave it other data. Where a
  -- service shows none, the process has to do.
  local info = call('INFO', 'replication')
  local _, at = string.find(info, 'master_replid:', 1, true)
  run = at and sub(info, at + 1, at + 40) or ''
  if not string.find(run, '[1-9a-f]') then
    info = call('INFO', 'server')
    _, at = string.find(info, 'run_id:', 1, true)
    run = at and sub(info, at + 1, at + 40) or ''
  end
elseif sub(run, 1, 1) == '=' and storedRun then run = storedRun
else run = sub(run, 2) end

-- What a step has read and changed.
local raws, changedRaws, ids, newBodies, goneBodies, newlyFinished = {}, {}, {}, {}, {}, {}
local changedIds = {}
local meshSet, meshGone, pushes, answer = {}, {}, {}, nil
-- What the caller is granted beyond the results of its operations.
local quickGrants = {}

-- Whether all of the batch makes room: it has to go through where memory is full. A server whose memory is full refuses a
-- script its first write if that could need more, and none after one that could not.
local frees = step == 'apply' and not string.find(ARGV[8], '[^dblpwDBLPWx]')

local function callMany(command, key, list)
  for from = 1, #list, 4000 do
    local to = from + 3999
    if to > #list then to = #list end
    call(command, key, unpack(list, from, to))
  end
end

-- changed: names of fields, valueOf their values; false is deleted.
local function writeFields(key, changed, valueOf)
  local set, gone = {}, {}
  for name in pairs(changed) do
    local value = valueOf[name]
    if value then
      set[#set + 1] = name
      set[#set + 1] = value
    else
      gone[#gone + 1] = name
    end
  end
  -- Where all of the batch makes room, that comes first: see quick.ts.
  if frees and #gone > 0 then callMany('HDEL', key, gone) end
  if #set > 0 then callMany('HSET', key, set) end
  if not frees and #gone > 0 then callMany('HDEL', key, gone) end
end
`;
