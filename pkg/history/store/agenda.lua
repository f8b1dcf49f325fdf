-- agenda: who is to be looked at soon, for an owner that takes over. It writes nothing.
--
-- KEYS  1 agenda
-- ARGV  1 how far ahead, ms
-- answer  OK now {instances, soonest first}
local t = now()
return {'OK', ms(t), redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(t + tonumber(ARGV[1])))}
