-- due returns the members that are due now. It postpones their wakeups by two seconds before they are handled, so that an instance that
-- cannot be handled neither spins nor starves the others.
--
-- The limits of the partition have wakeups of their own. The wakeup of a limit is at most two seconds ahead; one that is further
-- ahead was set before the clock stepped back, and counts as due.
--
--! keys  partition wakeups limits
--! args  token max#
--! reply FENCED | OK now instance* next limit* next_limit
--
-- max: maximum number of instances, and of limits; next, next_limit: time of the next wakeup, ms, or ''.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
local reply = {'OK', ms(t)}
for _, key in ipairs({wakeups, limits}) do
  local due, first = {}, redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] and (key == limits or tonumber(first[2]) <= t) then
    due = redis.call('ZRANGEBYSCORE', key, '-inf', ms(t), 'LIMIT', 0, max)
    if key == limits and #due < max then
      for _, limit in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. ms(t + 2000), '+inf', 'LIMIT', 0, max - #due)) do due[#due + 1] = limit end
    end
    if #due > 0 then
      allowOOM(partition)
      for _, member in ipairs(due) do redis.call('ZADD', key, ms(t + 2000), member) end
      first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
    end
  end
  reply[#reply + 1] = due
  reply[#reply + 1] = first[2] and ms(tonumber(first[2])) or ''
end
return reply
