-- settle begins the position of a seized partition anew, once for each change, or gives the partition to the fleet.
--
--! keys  partition
--! args  token change partitions
--! reply FENCED | OK
--
-- change: its id. partitions: '' begins the position anew; otherwise the new number, and the partition is free for members that have it.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
if partitions == '' then
  if redis.call('HGET', partition, 'begun') ~= change then
    redis.call('HSET', partition, 'begun', change, 'seq', '0', 'time', '0')
  end
else
  redis.call('HSET', partition, 'owner', '', 'until', '0', 'of', partitions)
end
return {'OK'}
