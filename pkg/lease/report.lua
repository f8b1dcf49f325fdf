-- report notes how cancelled activities of one execution ended, for whoever reads its history.
--
-- KEYS   record reports
-- ARGV   execution, then field text once for each activity
--        once  '1': only where nothing is noted yet
-- Answer OK, or GONE: there is no such instance, and nothing that was purged comes back; or the execution is none of those that
--        are kept, the current one and the one before it
--
-- Checks, before it writes: the record.
local execution, current = tonumber(ARGV[1]), tonumber(redis.call('HGET', KEYS[1], 'execution') or 0)
if execution > current or execution < current - 1 then return { 'GONE' } end
allowOOM(KEYS[2]) -- not the record: workers may only read it
for i = 2, #ARGV, 3 do
  redis.call(ARGV[i + 2] == '1' and 'HSETNX' or 'HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
return { 'OK' }
