-- settle resets the position of a seized partition, once per change, or releases the partition.
--
--! keys  partition
--! args  token change partitions
--! reply FENCED | OK
--
-- change: id of the change. partitions: '' resets the position; otherwise the new number, and the partition is released to members with it.
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
