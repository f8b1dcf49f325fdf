-- wanted tells which activities somebody still wants the result of. It writes nothing.
--
-- KEYS   leases, all of one partition, at most 500
-- ARGV   one effect a key
-- Answer one word a key:
--        OK    there is such a lease, held or not
--        GONE  there is no lease, or it is for another effect: a claim would be answered so too
local answer = {}
for i, lease in ipairs(KEYS) do
  answer[i] = redis.call('HGET', lease, 'e') == ARGV[i] and 'OK' or 'GONE'
end
return answer
