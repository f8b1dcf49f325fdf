-- acquire takes a partition that has no owner, or whose owner has expired or is dead.
--
--! keys  partition
--! args  token member_name span# new_secret partitions dead silent#
--! reply RESIZED partitions | HELD member remaining | OK sequence time clean epoch commits secret
--
-- token: random, new for this acquisition; span: ms; new_secret: for a partition without a secret. remaining: ms until the ownership expires.
-- clean: '1' if the last owner handed over; '0' if it died, or there was none. partitions: the caller's number of partitions; RESIZED: the
-- namespace has another number, or 0 while it is being changed (seize.lua). dead: a member whose ownership may be taken if it was not
-- renewed for `silent` ms; '': none.
--
-- The secret of the first owner stays. It can be lost only together with everything that depends on it, which is in the same slot and was
-- written later.
if ms(2 ^ 52) ~= '4503599627370496' then return redis.error_reply('ERR Pawl requires a 64-bit build of Redis') end
local t = now()
local o = redis.call('HMGET', partition, 'owner', 'until', 'span', 'member', 'seq', 'time', 'clean', 'commits', 'secret', 'of')
if o[10] and o[10] ~= partitions then return {'RESIZED', o[10]} end
local owner = o[1] or ''
if owner ~= '' and owner ~= token and not expired(o[2], o[3], t) then
  local remaining = tonumber(o[2]) - t
  if dead == '' or o[4] ~= dead or remaining > num(o[3]) - silent then return {'HELD', o[4] or '', ms(remaining)} end
end
allowOOM(partition)
redis.call('HSET', partition, 'owner', token, 'member', member_name, 'until', ms(t + span), 'span', ms(span), 'clean', '0')
local secret = o[9]
if not secret then
  secret = new_secret
  redis.call('HSET', partition, 'secret', secret)
end
local epoch = redis.call('HINCRBY', partition, 'epoch', 1)
return {'OK', o[5] or '0', o[6] or '0', o[7] or '0', ms(epoch), o[8] or '0', secret}
