-- look: nothing to turn; see to the leases, say why it does not move, set the next look.
--
-- A claim that is over is taken away, so that the activity can be dispatched again (the script
-- itself judges token and expiry: whoever claimed meanwhile keeps it). A lease that is missing
-- although nothing is unread was lost by the store: the history at this head wants it, so it is made again.
--
-- KEYS  1 partition  2 agenda  3 record  4 inbox  5 stuck  then the leases of what is outstanding
-- ARGV  1 token  2 instance  3 head  4 next look, ms, or ''  5 hold the inbox back: '' no, '1' yes, 'e' until its start comes
--       6 why it is stuck, '' to leave what is said, '-' to take it back  7 claims at the most
--       8 up to where the stream has its messages, '' to leave what is said  then the effect id and key of each lease
-- answer  FENCED | CONFLICT
--       | OK now length_of_inbox {for each lease: W claims back (waits; for when a worker gave it back, ms, or 0) | C until claims span token worker (claimed)
--         | X claims (claim was over) | P claims (claimed too often) | M (missing, completion unread) | R (made again)}
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
if (redis.call('HGET', KEYS[3], 'head') or '') ~= ARGV[3] then return {'CONFLICT', 'head'} end
local unread = redis.call('LLEN', KEYS[4])
if unread == 0 and redis.call('EXISTS', KEYS[3]) == 0 then -- a late copy of a look at what came early: nobody is there
  redis.call('HDEL', KEYS[5], ARGV[2])
  redis.call('ZREM', KEYS[2], ARGV[2])
  return {'OK', ms(t), unread, {}}
end
local most = tonumber(ARGV[7])
local answer, clear, make = {}, {}, {}
local look = tonumber(ARGV[4])
for k = 6, #KEYS do
  local effect = ARGV[2 * k - 3]
  local l = redis.call('HMGET', KEYS[k], 'e', 't', 'u', 'd', 'n', 'b', 'w')
  local n = l[5] or '0'
  if l[1] ~= effect then
    if unread > 0 then
      answer[k - 5] = 'M'
    else
      make[#make + 1] = k
      answer[k - 5] = 'R'
    end
  elseif l[2] and not over(l[3], l[4], t) then
    answer[k - 5] = 'C ' .. l[3] .. ' ' .. n .. ' ' .. (l[4] or '0') .. ' ' .. l[2] .. ' ' .. (l[7] or '?')
    -- a claim that is not renewed is looked at when it is over, not later
    if look and tonumber(l[3]) + 1 < look then look = tonumber(l[3]) + 1 end
  elseif tonumber(n) >= most then
    answer[k - 5] = 'P ' .. n
  elseif l[2] then
    clear[#clear + 1] = KEYS[k]
    answer[k - 5] = 'X ' .. n
  else
    answer[k - 5] = 'W ' .. n .. ' ' .. (l[6] or '0')
  end
end

allowOOM(KEYS[1])
for _, lease in ipairs(clear) do redis.call('HDEL', lease, 't', 'w', 'u', 'd') end
for _, k in ipairs(make) do
  redis.call('DEL', KEYS[k])
  redis.call('HSET', KEYS[k], 'e', ARGV[2 * k - 3], 'n', '0', 'c', ms(t), 'k', ARGV[2 * k - 2])
end
if ARGV[6] == '-' then
  redis.call('HDEL', KEYS[5], ARGV[2])
elseif ARGV[6] ~= '' then
  redis.call('HSET', KEYS[5], ARGV[2], ARGV[6])
end
if ARGV[8] ~= '' and ARGV[3] ~= '' then redis.call('HSET', KEYS[3], 'sent', ARGV[8]) end
settle(KEYS[2], unread > 0 and redis.call('LINDEX', KEYS[4], 0), ARGV[2], look, ARGV[5], t)
return {'OK', ms(t), unread, answer}
