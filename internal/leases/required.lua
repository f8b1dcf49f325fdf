-- required reports for each activity whether its result is still required. It writes nothing.
--
--! keys  | lease*
--! args  | effect*
--! reply outcome*
--
-- The leases are of one partition, at most 500. OK: there is such a lease, held or not. GONE: there is no lease, or it is for another
-- effect; a claim would receive the same reply.
local reply = {}
for i = 1, #lease do
  reply[i] = redis.call('HGET', lease[i], 'e') == effect[i] and 'OK' or 'GONE'
end
return reply
