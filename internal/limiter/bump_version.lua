-- bump_version raises the version of the policies above one that an orchestrator has seen: this Redis has lost the change that made it.
--
--! keys  policies
--! args  seen#
--! reply version
local v = tonumber(redis.call('HGET', policies, 'version') or 0)
if v < seen then
  v = math.max(seen + 1, now())
  redis.call('HSET', policies, 'version', ms(v))
end
return {ms(v)}
