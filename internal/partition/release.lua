-- release: give a partition back.
--
-- KEYS  1 partition
-- ARGV  1 token  2 '1': everything decided has been published; '0': the next owner has to look at once
-- answer  FENCED | OK
local t = now()
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return {'FENCED'} end
allowOOM(KEYS[1])
redis.call('HSET', KEYS[1], 'owner', '', 'member', '', 'until', '0', 'clean', ARGV[2])
return {'OK', ms(t)}
