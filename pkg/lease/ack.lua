-- ack ends a lease with its completion: both, or nothing.
--
--! keys  lease inbox wakeups
--! args  effect token instance id body largest#
--! reply GONE | STOLEN | EXPIRED | OK length now proof
--
-- largest: the size of the largest element that a doorbell carries.
-- GONE: there is no lease, or it is for another effect: the completion is no longer required. STOLEN: another worker holds it, or none
-- does. EXPIRED: the caller's claim had expired. OK: pushed; the inbox has `length` elements, 1 if it was empty before: then the
-- worker rings the doorbell, with the proof for the owner (see Tenure.VerifyProof of package store).
--
-- Checks before it writes: the effect, the token, the time. DEL of nothing would succeed, so it cannot be the check.
local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'k')
local t = now()
local why = lost(f, effect, token, t)
if why then return {why} end

-- Push, then delete: a push that fails (a key of another type) must not have deleted the lease.
local element = id .. '\n' .. ms(t) .. '\n' .. body
local length = redis.pcall('RPUSH', inbox, element)
if type(length) ~= 'number' then -- out of memory; otherwise it fails again
  allowOOM(lease)
  length = redis.call('RPUSH', inbox, element)
end
redis.call('DEL', lease)
if length > 1 then return {'OK', length, t, ''} end
advance(wakeups, instance, t + 2000)
if #element > largest then element = '' end
return {'OK', length, t, redis.sha1hex((f[5] or '') .. redis.sha1hex(element))}
