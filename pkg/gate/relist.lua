-- relist says when a gate is looked at next, or takes it off the list, after a visit.
--
-- KEYS   gates of the partition
-- ARGV   gate, when (ms; '' takes it off)
-- Answer OK, or DUE: it is due already. Whoever takes a gate from the list puts it off first, so somebody has entered
--        since the visit began (or it is behind in its visits), and the time stands.
local s = redis.call('ZSCORE', KEYS[1], ARGV[1])
if s and tonumber(s) <= now() then return { 'DUE' } end
if ARGV[2] == '' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
end
return { 'OK' }
