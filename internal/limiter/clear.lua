-- clear turns away who waits, a thousand at a time.
--
-- KEYS   see gate.lua
-- ARGV   1 the last number that is meant, '' for who waits now
-- Answer {how many, the last number that is meant, '1' if there are more}
local g = open('', '', '')
window(g)
local upto = ARGV[1]
if upto == '' then
  local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  upto = last[2] and ms(tonumber(last[2])) or '0'
end
local waiters = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', upto, 'LIMIT', 0, ROUND)
for _, m in ipairs(waiters) do
  seen(g, m, 'q')
  move(g, m, 'c')
  count(g, 'c', 1)
end
g.told = 0 -- nobody has been told: the next sweep does
if #waiters > 0 then close(g, '') end
return { ms(#waiters), upto, #waiters == ROUND and '1' or '0' }
