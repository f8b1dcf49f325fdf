-- renew prolongs the leases that are still the caller's.
--
-- KEYS   leases, all of one partition, at most 500
-- ARGV   ttl_ms, then one token a key
-- Answer one word a key:
--        OK       it lasts until now + ttl
--        GONE     there is no lease
--        STOLEN   somebody else holds it, or nobody
--        EXPIRED  the caller's time was over; it stays so, for another may be claiming
--
-- Each key stands alone: checked, then written.
local ttl = tonumber(ARGV[1])
local t = now()
local till, span = ms(t + ttl), ms(ttl)

local answer, allowed = {}, false
for i, lease in ipairs(KEYS) do
  local f = redis.call('HMGET', lease, 'e', 't', 'u', 'd')
  answer[i] = lost(f, nil, ARGV[1 + i], t) or 'OK'
  if answer[i] == 'OK' then
    if not allowed then
      allowOOM(lease)
      allowed = true
    end
    redis.call('HSET', lease, 'u', till, 'd', span)
  end
end
return answer
