-- unread: the head of an inbox, a few elements at a time, so that large ones do not cost more than is wanted of them.
--
-- KEYS  1 inbox
-- ARGV  1 elements at the most  2 their bytes at the most; but always one
-- answer  OK {elements}
local want, room, out = tonumber(ARGV[1]), tonumber(ARGV[2]), {}
local step = 16
for from = 0, want - 1, step do
  local some = redis.call('LRANGE', KEYS[1], from, math.min(from + step, want) - 1)
  for _, e in ipairs(some) do
    room = room - #e
    if room < 0 and #out > 0 then return {'OK', out} end
    out[#out + 1] = e
  end
  if #some < step then break end
end
return {'OK', out}
