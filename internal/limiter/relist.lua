-- relist says when a gate is looked at next, or takes it off the list, after a visit.
--
-- KEYS   gates of the partition
-- ARGV   gate, in how many ms ('' takes it off): its own clock may be another Redis', so it is this one's that counts
-- Answer OK, or DUE: it is due already. Whoever takes a gate from the list puts it off first, so somebody has entered
--        since the visit began (or it is behind in its visits), and the time stands.
local t, s = now(), redis.call('ZSCORE', KEYS[1], ARGV[1])
if s and tonumber(s) <= t then return { 'DUE' } end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZREM', KEYS[1], ARGV[1]) -- first, so that it is not refused where Redis is out of memory
  redis.call('ZADD', KEYS[1], ms(t + tonumber(ARGV[2])), ARGV[1])
end
return { 'OK' }
