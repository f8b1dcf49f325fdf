-- due: who must be looked at now. Each is put off by two seconds before anything is done
-- about it, so that an instance nobody can handle neither spins nor starves the others.
--
-- The gates of the partition have a list like the agenda of their own. Nobody puts a visit off by more than two seconds:
-- one that is farther away is from before the clock stepped back, and due.
--
-- KEYS  1 partition  2 agenda  3 gates
-- ARGV  1 token  2 how many of each at the most
-- answer  FENCED | OK now {instances} when the next one is due, ms, or '' {gates} when the next one is due, ms, or ''
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
allowOOM(KEYS[1])
local answer = {'OK', ms(t)}
for k = 2, 3 do
  local due = redis.call('ZRANGEBYSCORE', KEYS[k], '-inf', ms(t), 'LIMIT', 0, ARGV[2])
  if k == 3 and #due < tonumber(ARGV[2]) then
    for _, gate in ipairs(redis.call('ZRANGEBYSCORE', KEYS[k], '(' .. ms(t + 2000), '+inf', 'LIMIT', 0, tonumber(ARGV[2]) - #due)) do due[#due + 1] = gate end
  end
  for _, who in ipairs(due) do redis.call('ZADD', KEYS[k], ms(t + 2000), who) end
  local first = redis.call('ZRANGEBYSCORE', KEYS[k], '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  answer[#answer + 1] = due
  answer[#answer + 1] = first[2] and ms(tonumber(first[2])) or ''
end
return answer
