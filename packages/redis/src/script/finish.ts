/** The last part: writes what the step changed, sends its pushes, and answers. */
export const FINISH = `
end

if next(changedRaws) then writeFields(KEY.heads, changedRaws, raws) end
if next(changedIds) then writeFields(KEY.ids, changedIds, ids) end
if #newBodies > 0 then callMany('HSET', KEY.bodies, newBodies) end
if #goneBodies > 0 then callMany('HDEL', KEY.bodies, goneBodies) end
if #newlyFinished > 0 then callMany('RPUSH', KEY.finished, newlyFinished) end

local counters = pack('>dddd', last, count, remembered, countKeys())
if counters ~= known[2] then
  meshSet[#meshSet + 1] = '@'
  meshSet[#meshSet + 1] = counters
end
if #meshSet > 0 then callMany('HSET', KEY.mesh, meshSet) end
if #meshGone > 0 then callMany('HDEL', KEY.mesh, meshGone) end
for at = 1, #pushes, 2 do call(ARGV[3], ARGV[4] .. pushes[at], pushes[at + 1]) end
return answer
`;
