-- bump_version raises the version of the policies above a version that an orchestrator has seen, after this Redis has lost the change
-- with that version.
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
