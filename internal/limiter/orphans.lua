-- orphans reports which tickets no instance in one partition requires.
--
--! keys  | key*
--! args  | witness*
--! reply orphan*
--
-- key: leases and records, at most 500. witness: for each key, 'l' and the effect id of the lease, 'o' and the origin of the instance
-- (seq.time), or 'k' and the ticket of a slot that the record retains. orphan: 1 if the ticket is not required, otherwise 0.
local reply = {}
for i = 1, #key do
  local kind, is = string.sub(witness[i], 1, 1), string.sub(witness[i], 2)
  local required
  if kind == 'l' then
    required = redis.call('HGET', key[i], 'e') == is
  elseif kind == 'k' then
    required = redis.call('HEXISTS', key[i], 'r:' .. is) == 1
  else
    local r = redis.call('HMGET', key[i], 'orig', 'ended', 'status')
    required = r[1] == is and (r[2] or '0') == '0' and r[3] ~= 'pending' -- pending: the instance has not taken up its grant
  end
  reply[i] = required and 0 or 1
end
return reply
