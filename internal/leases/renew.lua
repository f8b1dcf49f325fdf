-- renew extends the leases of one partition that the caller still holds.
--
--! keys  | lease*
--! args  ttl# | token*
--! reply outcome*
--
-- The outcomes are OK (the claim lasts until now + ttl), GONE (there is no lease), STOLEN (another worker holds it, or it is free) and
-- EXPIRED (the caller's claim had expired; it stays expired, because another worker may be claiming the lease).
--
-- Each lease is checked and written independently of the others.
local t = now()
local till, span = ms(t + ttl), ms(ttl)

local reply, allowed = {}, false
for i = 1, #lease do
  local f = redis.call('HMGET', lease[i], 'e', 't', 'u', 'd')
  reply[i] = lost(f, nil, token[i], t) or 'OK'
  if reply[i] == 'OK' then
    if not allowed then
      allowOOM(lease[i])
      allowed = true
    end
    redis.call('HSET', lease[i], 'u', till, 'd', span)
  end
end
return reply
