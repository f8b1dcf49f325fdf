-- heartbeat records that a member is live, and its reach, or, with a span of 0, removes it. It returns the live members.
--
--! keys  members
--! args  member_name own_span# span# own_reach
--! reply OK living(member reach silent)*
--
-- members: member -> time of its last heartbeat in ms, and its reach with the partitions that it declines. own_span: 0 if this member
-- leaves. span: ms without a heartbeat after which a member is removed. silent: ms since the last heartbeat of a member.
local t = now()
if own_span == 0 then
  redis.call('HDEL', members, member_name)
else
  allowOOM(members)
  redis.call('HSET', members, member_name, ms(t) .. ' ' .. own_reach)
end
local living = {}
local all = redis.call('HGETALL', members)
for i = 1, #all, 2 do
  local at, reach = string.match(all[i + 1], '^(%d+) (%S+)$')
  at = tonumber(at)
  if at and at > t - span and at < t + span then -- a time in the future was written before the clock was set back
    living[#living + 1], living[#living + 2], living[#living + 3] = all[i], reach, ms(math.max(t - at, 0))
  else
    redis.call('HDEL', members, all[i])
  end
end
return {'OK', living}
