-- ack ends a lease with its completion: it deletes the lease and pushes the completion to the inbox, or does neither.
--
--! keys  lease inbox wakeups
--! args  effect token instance id body largest#
--! reply GONE | STOLEN | EXPIRED | OK length now proof
--
-- largest: the maximum size in bytes of an element that a doorbell carries.
-- GONE: there is no lease, or it is for another effect: the completion is no longer required. STOLEN: another worker holds the lease, or
-- it is free. EXPIRED: the caller's claim had expired. OK: the completion was pushed, and the inbox has `length` elements. If that is 1,
-- the inbox was empty, and the worker sends the doorbell with the proof for the owner (see Tenure.VerifyProof of package store).
--
-- Checks before it writes: the effect, the token, the time. DEL also succeeds on a missing key, so it cannot be the check.
local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'k')
local t = now()
local outcome = lost(f, effect, token, t)
if outcome then return {outcome} end

-- Push, then delete: if the push fails (the key has another type), the lease must still exist.
local element = id .. '\n' .. ms(t) .. '\n' .. body
local length = redis.pcall('RPUSH', inbox, element)
if type(length) ~= 'number' then -- out of memory; after any other error the second push fails too
  allowOOM(lease)
  length = redis.call('RPUSH', inbox, element)
end
redis.call('DEL', lease)
if length > 1 then return {'OK', length, t, ''} end
advance(wakeups, instance, t + 2000)
if #element > largest then element = '' end
return {'OK', length, t, redis.sha1hex((f[5] or '') .. redis.sha1hex(element))}
