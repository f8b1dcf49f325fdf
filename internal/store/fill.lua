-- fill appends elements to a list that is copied in chunks to a seized partition.
--
--! keys  partition list
--! args  token from# | element*
--! reply FENCED | CONFLICT length | OK
--
-- from: length of the list before this chunk; 0: the list is created anew. A chunk that was already appended is not appended again.
if fenced(partition, token, now()) then return {'FENCED'} end
local length = redis.call('LLEN', list)
if from == 0 then
  redis.call('DEL', list)
elseif length == from + #element then
  return {'OK'}
elseif length ~= from then
  return {'CONFLICT', length}
end
for first = 1, #element, 1000 do
  redis.call('RPUSH', list, unpack(element, first, math.min(first + 999, #element)))
end
return {'OK'}
