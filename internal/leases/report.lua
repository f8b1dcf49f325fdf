-- report records how cancelled activities of one execution ended, for readers of its history.
--
--! keys  record reports
--! args  execution# | report(activity text once)*
--! reply OK | GONE
--
-- once: '1' writes only if there is no report for the activity yet.
-- GONE: there is no such instance (a purged one must not be created again), or the execution is not retained: only the current one and
-- the one before it are.
--
-- Checks before it writes: the record.
local current = tonumber(redis.call('HGET', record, 'execution') or 0)
if execution > current or execution < current - 1 then return {'GONE'} end
allowOOM(reports) -- not the record: workers may only read it
for i = 1, #report do
  redis.call(report[i].once == '1' and 'HSETNX' or 'HSET', reports, report[i].activity, report[i].text)
end
return {'OK'}
