-- release gives up the ownership of a partition.
--
--! keys  partition
--! args  token clean
--! reply FENCED | OK now
--
-- clean: '1' if everything that the owner decided has been published; '0' if the next owner must reconcile at once.
local t = now()
if redis.call('HGET', partition, 'owner') ~= token then return {'FENCED'} end
allowOOM(partition)
redis.call('HSET', partition, 'owner', '', 'member', '', 'until', '0', 'clean', clean)
return {'OK', ms(t)}
