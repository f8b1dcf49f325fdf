-- fill appends elements to a list that is copied in parts, in a partition that is seized.
--
--! keys  partition list
--! args  token from# | element*
--! reply FENCED | CONFLICT length | OK
--
-- from: the length of the list before; 0: the list is made anew. A part that was appended before is not appended again.
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
