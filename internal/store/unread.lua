-- unread reads the head of an inbox in small batches, so that reading a large inbox costs no more than its head.
--
--! keys  inbox
--! args  max_elements# max_bytes#
--! reply OK element*
--
-- It returns at least one element, whatever its size.
local room, out = max_bytes, {}
local step = 16
for from = 0, max_elements - 1, step do
  local batch = redis.call('LRANGE', inbox, from, math.min(from + step, max_elements) - 1)
  for _, e in ipairs(batch) do
    room = room - #e
    if room < 0 and #out > 0 then return {'OK', out} end
    out[#out + 1] = e
  end
  if #batch < step then break end
end
return {'OK', out}
