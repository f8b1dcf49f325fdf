-- beat: a member says that it lives (or, with a span of 0, that it leaves) and learns who else does.
--
-- KEYS  1 members
-- ARGV  1 member  2 span, ms: who has not been heard of for so long is gone; 0: this member leaves  3 span of the others, ms
-- answer  OK {members} ms until the member that was heard of longest ago is gone
local t = now()
local span = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(t - span))
redis.call('ZREMRANGEBYSCORE', KEYS[1], ms(t + span), '+inf') -- heard of before the clock stepped back
if ARGV[2] == '0' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ms(t), ARGV[1])
end
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
return {'OK', redis.call('ZRANGE', KEYS[1], 0, -1), ms((tonumber(oldest) or t) + span - t)}
