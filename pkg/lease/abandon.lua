-- abandon gives a lease back before its end.
--
-- KEYS   lease agenda
-- ARGV   effect token instance uncounted delay_ms
--        uncounted  '1' takes the claim back from the count: it was no fault of the activity
-- Answer GONE     there is no lease, or it is for another effect
--        STOLEN   somebody else holds it, or nobody: it was given back before
--        EXPIRED  the caller's time was over
--        OK       free; the owner's look, at the latest in delay, dispatches it again
--
-- Checks, before it writes: the effect, the token, the time.
local lease, agenda = KEYS[1], KEYS[2]
local effect, token, instance = ARGV[1], ARGV[2], ARGV[3]
local uncounted, delay = ARGV[4] == '1', tonumber(ARGV[5])

local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local t = now()
local why = lost(f, effect, token, t)
if why then return { why } end

redis.call('HDEL', lease, 't', 'w', 'u', 'd')
redis.call('HSET', lease, 'b', ms(t + delay)) -- its task is not in the queue any more: the look sends it then
if uncounted then
  redis.call('HSET', lease, 'n', ms(math.max(0, (tonumber(f[5]) or 0) - 1)))
end
hurry(agenda, instance, t + delay)
return { 'OK' }
