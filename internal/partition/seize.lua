-- seize takes a partition for a change of the number of partitions: no member can acquire it before settle releases it.
--
--! keys  partition
--! args  token change new_secret span#
--! reply HELD member | OK sequence time secret
--
-- token: of this run of the change; an earlier run is fenced. change: id of the change, the same for all runs; span: ms, longer than any
-- change.
local t = now()
local o = redis.call('HMGET', partition, 'owner', 'until', 'span', 'member', 'seq', 'time', 'secret', 'change')
local owner = o[1] or ''
if owner ~= '' and o[8] ~= change and not expired(o[2], o[3], t) then return {'HELD', o[4] or ''} end
local secret = o[7] or new_secret
redis.call('HSET', partition, 'owner', token, 'member', '', 'until', ms(t + span), 'span', ms(span), 'clean', '0', 'secret', secret,
  'of', '0', 'change', change)
return {'OK', o[5] or '0', o[6] or '0', secret}
