-- report notes how cancelled activities of one execution ended, for whoever reads its history.
--
-- KEYS   record reports
-- ARGV   field text once, for each activity
--        once  '1': only where nothing is noted yet
-- Answer OK, or GONE: there is no such instance, and nothing that was purged comes back
--
-- Checks, before it writes: the record.
if redis.call('EXISTS', KEYS[1]) == 0 then return { 'GONE' } end
for i = 1, #ARGV, 3 do
  redis.call(ARGV[i + 2] == '1' and 'HSETNX' or 'HSET', KEYS[2], ARGV[i], ARGV[i + 1])
end
return { 'OK' }
