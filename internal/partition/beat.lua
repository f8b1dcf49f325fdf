-- beat: a member reports that it lives and how it reads its inputs (or, with a span of 0, that it leaves), and learns
-- who else does.
--
-- KEYS  1 members: member -> time of its last heartbeat, ms, and its reach
-- ARGV  1 member  2 span, ms: after it a silent member is gone; 0: this member leaves  3 span of the others, ms  4 reach
-- answer  OK {member reach member reach …} ms until the member with the oldest heartbeat is gone
local t = now()
local span = tonumber(ARGV[3])
if ARGV[2] == '0' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  allowOOM(KEYS[1])
  redis.call('HSET', KEYS[1], ARGV[1], ms(t) .. ' ' .. ARGV[4])
end
local living, oldest = {}, t
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local at, reach = string.match(all[i + 1], '^(%d+) (%a+)$')
  at = tonumber(at)
  if at and at > t - span and at < t + span then -- one of the future is from before the clock stepped back
    living[#living + 1], living[#living + 2] = all[i], reach
    oldest = math.min(oldest, at)
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return {'OK', living, ms(oldest + span - t)}
