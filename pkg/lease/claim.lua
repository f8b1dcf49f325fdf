-- claim takes a lease that is free or expired.
--
-- KEYS   lease
-- ARGV   effect token worker ttl_ms max_claims
-- Answer GONE                     there is no lease, or it is for another effect
--        HELD until               somebody holds it
--        EXHAUSTED claims         nobody holds it, but it was claimed as often as is allowed
--        YOURS claims until now   it is the caller's; the same token again changes nothing
--
-- Checks, before it writes: the effect; then whether a claim lasts, and whose it is;
-- then the number of claims: claims are counted, not deliveries.
local lease = KEYS[1]
local effect, token, worker = ARGV[1], ARGV[2], ARGV[3]
local ttl, most = tonumber(ARGV[4]), tonumber(ARGV[5])

local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local is = { effect = f[1], token = f[2], till = f[3], span = f[4], claims = tonumber(f[5]) or 0 }

if is.effect ~= effect then
  return { 'GONE' }
end

local t = now()
if is.token and not over(is.till, is.span, t) then
  if is.token == token then
    return { 'YOURS', ms(is.claims), is.till, ms(t) }
  end
  return { 'HELD', is.till }
end

if is.claims >= most then
  return { 'EXHAUSTED', ms(is.claims) }
end

local claims, till = ms(is.claims + 1), ms(t + ttl)
redis.call('HSET', lease, 't', token, 'w', worker, 'u', till, 'd', ms(ttl), 'n', claims)
return { 'YOURS', claims, till, ms(t) }
