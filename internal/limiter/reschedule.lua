-- reschedule sets the next wakeup of a limit, or removes it, after a sweep.
--
--! keys  limits
--! args  limit delay
--! reply OK | DUE
--
-- delay: ms by the clock of this Redis, which may differ from the clock of the limit's Redis; '' removes the wakeup.
-- DUE: the limit is due already. An owner postpones the wakeup of a limit before it sweeps it, so a member has entered since the sweep
-- began (or the sweeps of the owner are delayed), and the wakeup remains.
local t, s = now(), redis.call('ZSCORE', limits, limit)
if s and tonumber(s) <= t then return {'DUE'} end
redis.call('ZREM', limits, limit) -- first, so that Redis does not refuse ZADD while it is out of memory
if delay ~= '' then redis.call('ZADD', limits, ms(t + tonumber(delay)), limit) end
return {'OK'}
