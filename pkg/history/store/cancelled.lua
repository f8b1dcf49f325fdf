-- cancelled: note the marks of children that were cancelled, so that nobody begins below them.
--
-- KEYS  1 cancelled
-- ARGV  1 for how long, ms  2 how many are kept, the latest  then the marks
-- answer  OK
local t = now()
for k = 3, #ARGV do redis.call('ZADD', KEYS[1], ms(t), ARGV[k]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ms(t - tonumber(ARGV[1])))
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -tonumber(ARGV[2]) - 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return {'OK'}
