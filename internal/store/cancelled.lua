-- cancelled records the marks of cancelled children, so that no descendant of them begins.
--
--! keys  cancelled
--! args  span# max# | mark*
--! reply OK
--
-- span: how long marks are kept, ms; max: the number of most recent marks that are kept.
local t = now()
for k = 1, #mark do redis.call('ZADD', cancelled, ms(t), mark[k]) end
redis.call('ZREMRANGEBYSCORE', cancelled, '-inf', ms(t - span))
redis.call('ZREMRANGEBYRANK', cancelled, 0, -max - 1)
redis.call('PEXPIRE', cancelled, ms(span))
return {'OK'}
