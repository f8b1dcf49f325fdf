-- policy sets or deletes the policy of a level at run time.
--
--! keys  policies
--! args  level policy
--! reply existed version
--
-- policy: JSON, '' to delete it; existed: 1 if the level had a policy before.
-- The version is the current time, or the previous version plus one if that is greater. So it ascends even if this Redis has lost the
-- last changes.
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
