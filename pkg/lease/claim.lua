-- claim takes a lease that is free or expired.
--
-- KEYS   lease
-- ARGV   effect token worker ttl_ms max_attempts
-- Answer GONE                     there is no lease, or it is for another effect
--        HELD until               somebody holds it
--        EXHAUSTED attempts       nobody holds it, but it was claimed as often as is allowed
--        YOURS attempts until now it is the caller's; the same token again changes nothing
--
-- Checks, before it writes: the effect; then whether a claim lasts, and whose it is;
-- then the number of attempts. An attempt is a claim, not a delivery.
local lease = KEYS[1]
local effect, token, worker = ARGV[1], ARGV[2], ARGV[3]
local ttl, most = tonumber(ARGV[4]), tonumber(ARGV[5])

local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local is = { effect = f[1], token = f[2], till = f[3], span = f[4], attempts = tonumber(f[5]) or 0 }

if is.effect ~= effect then
  return { 'GONE' }
end

local t = now()
if is.token and not over(is.till, is.span, t) then
  if is.token == token then
    return { 'YOURS', ms(is.attempts), is.till, ms(t) }
  end
  return { 'HELD', is.till }
end

if is.attempts >= most then
  return { 'EXHAUSTED', ms(is.attempts) }
end

local attempts, till = ms(is.attempts + 1), ms(t + ttl)
redis.call('HSET', lease, 't', token, 'w', worker, 'u', till, 'd', ms(ttl), 'n', attempts)
return { 'YOURS', attempts, till, ms(t) }
