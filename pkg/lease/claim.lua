-- claim takes a lease that is free or whose claim has expired.
--
--! keys  lease
--! args  effect token worker ttl# max_claims#
--! reply GONE | HELD until | EXHAUSTED claims | ACQUIRED claims until now
--
-- GONE: there is no lease, or it is for another effect. HELD: another worker holds it. EXHAUSTED: it is free, and was claimed as
-- often as is allowed. ACQUIRED: the caller holds it; a repeat with the same token changes nothing.
--
-- Checks before it writes: the effect; then whether a claim is current, and whose; then the number of claims: claims are counted, not
-- deliveries.
local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local is = { effect = f[1], token = f[2], till = f[3], span = f[4], claims = tonumber(f[5]) or 0 }

if is.effect ~= effect then
  return { 'GONE' }
end

local t = now()
if is.token and not expired(is.till, is.span, t) then
  if is.token == token then
    return { 'ACQUIRED', ms(is.claims), is.till, ms(t) }
  end
  return { 'HELD', is.till }
end

if is.claims >= max_claims then
  return { 'EXHAUSTED', ms(is.claims) }
end

local claims, till = ms(is.claims + 1), ms(t + ttl)
redis.call('HSET', lease, 't', token, 'w', worker, 'u', till, 'd', ms(ttl), 'n', claims)
return { 'ACQUIRED', claims, till, ms(t) }
