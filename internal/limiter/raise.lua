-- raise lifts the version of the policies above one that is known from elsewhere: this Redis has forgotten the change that made it.
--
-- KEYS   policies
-- ARGV   version
-- Answer version
local v, known = tonumber(redis.call('HGET', KEYS[1], 'version') or 0), tonumber(ARGV[1])
if v < known then
  v = math.max(known + 1, now())
  redis.call('HSET', KEYS[1], 'version', ms(v))
end
return { ms(v) }
