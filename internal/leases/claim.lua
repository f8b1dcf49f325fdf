-- claim claims a lease that is free or whose claim has expired.
--
--! keys  lease
--! args  effect token worker ttl max_claims#
--! reply GONE | HELD until | EXHAUSTED claims | ACQUIRED claims until now
--
-- GONE: there is no lease, or it is for another effect. HELD: another worker holds it. EXHAUSTED: no worker holds it, and it has been
-- claimed max_claims times. ACQUIRED: the caller holds it; repeating the call with the same token changes nothing.
--
-- Checks before it writes: the effect; whether a claim is current, and by which token; the number of claims. Claims are counted, not
-- deliveries.
local is = redis.call('HMGET', lease, 'e', 't', 'u', 'd', 'n')
local holder, held_until, span, claims = is[2], is[3], is[4], num(is[5] or '') or 0

if is[1] ~= effect then
  return {'GONE'}
end

local t = now()
if holder and not expired(held_until, span, t) then
  if holder == token then
    return {'ACQUIRED', claims, held_until, t}
  end
  return {'HELD', held_until}
end

if claims >= max_claims then
  return {'EXHAUSTED', claims}
end

claims = claims + 1
local till = t + num(ttl)
redis.call('HSET', lease, 't', token, 'w', worker, 'u', ms(till), 'd', ttl, 'n', ms(claims))
return {'ACQUIRED', claims, till, t}
