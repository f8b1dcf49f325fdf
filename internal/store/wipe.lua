-- wipe removes an unreadable instance for a forced purge, whatever the types and contents of its keys.
--
--! keys  partition wakeups inbox ids stalled early orchestrations | index=set* data*
--! args  token instance place# purge | set*
--! reply FENCED | CONFLICT inbox | OK now foreign_keys
--
-- place: index of the purge in the inbox, from 0; purge: its id. purge '': it is not in the inbox yet, and the script only removes an
-- inbox or message ids of another type, which would keep it out.
-- index: the set of each status, and the sets of attribute values that contain the instance; set: the name of the orchestration if it is the
-- set of an orchestration, or ''; data: all keys to remove.
-- CONFLICT: the purge is not at that index. foreign_keys: number of keys of another type.
--
-- The message ids are kept for their hour, as by purge. So are the inputs after the purge: they belong to the next instance with the id.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
local function foreign(command, key)
  local r = redis.pcall(command, key)
  return type(r) == 'table' and r.err and string.find(r.err, 'WRONGTYPE', 1, true) and key or nil
end
local foreign_inbox, foreign_ids = foreign('LLEN', inbox), foreign('ZCARD', ids)
local found = (foreign_inbox and 1 or 0) + (foreign_ids and 1 or 0)
if purge ~= '' then
  local id = purge .. '\n'
  if foreign_inbox or string.sub(redis.call('LINDEX', inbox, place) or '', 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end

if foreign_inbox then redis.call('UNLINK', foreign_inbox) end
if foreign_ids then redis.call('UNLINK', foreign_ids) end
if purge == '' then return {'OK', ms(t), found} end
allowOOM(partition)
for k = 1, #index do
  redis.call('ZREM', index[k], instance)
  if set[k] ~= '' and redis.call('EXISTS', index[k]) == 0 then redis.call('ZREM', orchestrations, set[k]) end
end
for k = 1, #data do redis.call('UNLINK', data[k]) end
redis.call('HDEL', stalled, instance)
local bytes = redis.call('HMGET', early, instance, '')
if bytes[1] then
  local left = (tonumber(bytes[2]) or 0) - (tonumber(bytes[1]) or 0)
  redis.call('HDEL', early, instance, '')
  if left > 0 then redis.call('HSET', early, '', ms(left)) end
end
redis.call('LTRIM', inbox, place + 1, -1)
local first = startFirst(inbox)
schedule(wakeups, first, instance, first and ms(t) or '', '', t)
return {'OK', ms(t), found}
