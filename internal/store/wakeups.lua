-- wakeups reads the instances that are due soon, for an owner that takes over. It writes nothing.
--
--! keys  wakeups
--! args  within#
--! reply OK now instance*
--
-- within: ms; the instances are sorted by their wakeups.
local t = now()
return {'OK', ms(t), redis.call('ZRANGEBYSCORE', wakeups, '-inf', ms(t + within))}
