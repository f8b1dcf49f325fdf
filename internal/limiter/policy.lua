-- policy sets or deletes the policy of a level at run time.
--
-- KEYS   policies
-- ARGV   level, policy (JSON; '' deletes it)
-- Answer {1 if there was one before, version}
--
-- The version is the time, or one more than the last: it goes on ascending when this Redis has lost the last changes.
local v = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
local existed = redis.call('HEXISTS', KEYS[1], ARGV[1])
if ARGV[2] == '' and existed == 0 then return { 0, ms(v) } end
v = math.max(v + 1, now())
if ARGV[2] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HSET', KEYS[1], 'version', ms(v))
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'version', ms(v))
end
return { existed, ms(v) }
