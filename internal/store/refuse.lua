-- refuse records inputs that cannot be processed, newest first, because their senders no longer wait for a reply, and removes the
-- entries of a purged id.
--
--! keys  partition refused
--! args  token max# span# | entry* gone*
--! reply FENCED | OK now
--
-- max: how many entries are kept; span: how long they are kept, ms.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
for k = 1, #entry do redis.call('LPUSH', refused, entry[k]) end
for k = 1, #gone do redis.call('LREM', refused, 0, gone[k]) end
redis.call('LTRIM', refused, 0, max - 1)
redis.call('PEXPIRE', refused, ms(span))
return {'OK', ms(t)}
