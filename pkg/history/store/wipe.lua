-- wipe: a purge by force removes an instance that cannot be read, whatever types and contents its keys have.
--
-- KEYS  1 partition  2 agenda  3 inbox  4 seen  5 stuck  6 early  then the indexes of all statuses, so many as ARGV 5, then the keys to remove
-- ARGV  1 token  2 instance  3 place of the purge in the inbox, from 0  4 its id; '': it is not in the inbox yet, and all that is
--       removed is what keeps it out: an inbox or message ids of another type  5 number of indexes
-- answer  FENCED | CONFLICT inbox (the purge is not in that place) | OK now number of keys of another type
--
-- The message ids stay for their hour, as behind a purge. So does what came behind the purge: it is for the next instance of the id.
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local function foreign(command, key)
  local r = redis.pcall(command, key)
  return type(r) == 'table' and r.err and string.find(r.err, 'WRONGTYPE', 1, true) and key or nil
end
local inbox, seen = foreign('LLEN', KEYS[3]), foreign('ZCARD', KEYS[4])
local found = (inbox and 1 or 0) + (seen and 1 or 0)
if ARGV[4] ~= '' then
  local id = ARGV[4] .. '\n'
  if inbox or string.sub(redis.call('LINDEX', KEYS[3], ARGV[3]) or '', 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end

if inbox then redis.call('UNLINK', inbox) end
if seen then redis.call('UNLINK', seen) end
if ARGV[4] == '' then return {'OK', ms(t), found} end
allowOOM(KEYS[1])
local indexes = tonumber(ARGV[5])
for k = 7, 6 + indexes do redis.call('ZREM', KEYS[k], ARGV[2]) end
for k = 7 + indexes, #KEYS do redis.call('UNLINK', KEYS[k]) end
redis.call('HDEL', KEYS[5], ARGV[2])
local early = redis.call('HMGET', KEYS[6], ARGV[2], '')
if early[1] then
  local left = (tonumber(early[2]) or 0) - (tonumber(early[1]) or 0)
  redis.call('HDEL', KEYS[6], ARGV[2], '')
  if left > 0 then redis.call('HSET', KEYS[6], '', ms(left)) end
end
redis.call('LTRIM', KEYS[3], tonumber(ARGV[3]) + 1, -1)
local first = startFirst(KEYS[3])
settle(KEYS[2], first, ARGV[2], first and ms(t) or '', '', t)
return {'OK', ms(t), found}
