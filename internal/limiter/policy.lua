-- policy sets or deletes the policy of a level at run time.
--
--! keys  policies
--! args  level policy
--! reply existed version
--
-- policy: JSON, '' deletes it; existed: 1 if there was one before.
-- The version is the time, or one more than the last: it continues to ascend when this Redis has lost the last changes.
local v = tonumber(redis.call('HGET', policies, 'version') or 0)
local existed = redis.call('HEXISTS', policies, level)
if policy == '' and existed == 0 then return {0, ms(v)} end
v = math.max(v + 1, now())
if policy == '' then
  redis.call('HDEL', policies, level)
  redis.call('HSET', policies, 'version', ms(v))
else
  redis.call('HSET', policies, level, policy, 'version', ms(v))
end
return {existed, ms(v)}
