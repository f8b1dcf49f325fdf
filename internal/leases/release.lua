-- release returns a lease before its claim expires.
--
--! keys  lease wakeups
--! args  effect token instance uncounted delay#
--! reply GONE | STOLEN | EXPIRED | OK
--
-- uncounted: '1' if the claim is not counted, because the activity did not cause its end; delay: ms.
-- GONE: there is no lease, or it is for another effect. STOLEN: another worker holds it, or it is free: it was released before.
-- EXPIRED: the caller's claim had expired. OK: the lease is free; the owner dispatches its task again after the delay.
--
-- Checks before it writes: the effect, the token, the time.
local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local t = now()
local outcome = lost(f, effect, token, t)
if outcome then return {outcome} end

redis.call('HDEL', lease, 't', 'w', 'u', 'd')
redis.call('HSET', lease, 'r', ms(t + delay)) -- its task is no longer in the queue; reconciliation publishes it at this time
if uncounted == '1' then
  redis.call('HSET', lease, 'n', ms(math.max(0, (tonumber(f[5]) or 0) - 1)))
end
advance(wakeups, instance, t + delay)
return {'OK'}
