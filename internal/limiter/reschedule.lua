-- reschedule sets the next wakeup of a limit, or removes it, after a sweep.
--
--! keys  limits
--! args  limit delay
--! reply OK | DUE
--
-- delay: ms, '' removes the wakeup. It counts by the clock of this Redis: that of the limit may be another's.
-- DUE: the limit is due already. An owner that takes a limit from the wakeups puts it off first, so a member has entered since the
-- sweep began (or the owner is behind in its sweeps), and the wakeup stays.
local t, s = now(), redis.call('ZSCORE', limits, limit)
if s and tonumber(s) <= t then return {'DUE'} end
redis.call('ZREM', limits, limit) -- first, so that ZADD is not refused while Redis is out of memory
if delay ~= '' then redis.call('ZADD', limits, ms(t + tonumber(delay)), limit) end
return {'OK'}
