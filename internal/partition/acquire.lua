-- acquire: take a partition that nobody owns, or whose owner's time is over.
--
-- KEYS  1 partition
-- ARGV  1 token (random for this acquisition)  2 member  3 span, ms  4 secret for a partition that has none
-- answer  HELD member ms until its time is over
--       | OK sequence time clean ('1': the last owner handed over; '0': it died, or there was none) epoch commits secret
--
-- The secret is made by the first owner and stays. It is forgotten only together with everything that depends on it, which is
-- in the same slot and was written later.
local t = now()
local o = redis.call('HMGET', KEYS[1], 'owner', 'until', 'span', 'member', 'seq', 'time', 'clean', 'commits', 'secret')
local owner = o[1] or ''
if owner ~= '' and owner ~= ARGV[1] and not over(o[2], o[3], t) then
  return {'HELD', o[4] or '', ms(tonumber(o[2]) - t)}
end
allowOOM(KEYS[1])
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'member', ARGV[2], 'until', ms(t + tonumber(ARGV[3])), 'span', ARGV[3], 'clean', '0')
local secret = o[9]
if not secret then
  secret = ARGV[4]
  redis.call('HSET', KEYS[1], 'secret', secret)
end
local epoch = redis.call('HINCRBY', KEYS[1], 'epoch', 1)
return {'OK', o[5] or '0', o[6] or '0', o[7] or '0', ms(epoch), o[8] or '0', secret}
