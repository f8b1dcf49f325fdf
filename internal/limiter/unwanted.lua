-- unwanted tells which tickets nothing in one partition wants any more.
--
-- KEYS   leases and records, at most 500
-- ARGV   one a key: 'l' and the effect id of the lease, 'b' and the birth of the instance, seq.time, or 'k' and the ticket of a slot that the record keeps
-- Answer one a key: 1 if it is not wanted, else 0
local answer = {}
for i, key in ipairs(KEYS) do
  local what, is = string.sub(ARGV[i], 1, 1), string.sub(ARGV[i], 2)
  local wanted
  if what == 'l' then
    wanted = redis.call('HGET', key, 'e') == is
  elseif what == 'k' then
    wanted = redis.call('HEXISTS', key, 'k:' .. is) == 1
  else
    local r = redis.call('HMGET', key, 'born', 'ended', 'status')
    wanted = r[1] == is and (r[2] or '0') == '0' and r[3] ~= 'pending' -- else its grant was not taken up
  end
  answer[i] = wanted and 0 or 1
end
return answer
