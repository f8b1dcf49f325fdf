-- ack ends a lease with its completion: both, or nothing.
--
-- KEYS   lease inbox agenda
-- ARGV   effect token instance id body largest
--        largest  size of the largest element that a doorbell carries
-- Answer GONE                  there is no lease, or it is for another effect: nobody wants the completion
--        STOLEN                somebody else holds it, or nobody
--        EXPIRED               the caller's time was over
--        OK length now proof   pushed; the inbox holds `length` elements, at 1 it was empty before: then the doorbell is rung,
--                              with the proof for the owner (see Tenure.Proves of package store)
--
-- Checks, before it writes: the effect, the token, the time. DEL of nothing would
-- succeed, so it can not be the check.
local lease, inbox, agenda = KEYS[1], KEYS[2], KEYS[3]
local effect, token, instance, id, body, largest = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])

local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'k')
local t = now()
local why = lost(f, effect, token, t)
if why then return { why } end

allowOOM(lease)
-- Push, then delete: a push that fails (a key of another type) must not have taken the lease.
local element = id .. '\n' .. ms(t) .. '\n' .. body
local length = redis.call('RPUSH', inbox, element)
redis.call('DEL', lease)
if length > 1 then return { 'OK', length, ms(t), '' } end
hurry(agenda, instance, t + 2000)
if #element > largest then element = '' end
return { 'OK', length, ms(t), redis.sha1hex((f[5] or '') .. redis.sha1hex(element)) }
