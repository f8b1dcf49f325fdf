-- clear rejects the waiters, a thousand at a time.
--
--! args  last
--! reply cleared last more
--
-- last: the number of the last waiter to reject, '' for those that wait now; cleared: how many; more: '1' if there are more.
local g = open('', '', '')
window(g)
if last == '' then
  local newest = redis.call('ZREVRANGE', waiters, 0, 0, 'WITHSCORES')
  last = newest[2] and ms(tonumber(newest[2])) or '0'
end
local batch = redis.call('ZRANGEBYSCORE', waiters, '-inf', last, 'LIMIT', 0, ROUND)
for _, m in ipairs(batch) do
  seen(g, m, 'q')
  move(g, m, 'c')
  count(g, 'cl', 1)
end
g.told = 0 -- no owner was notified: the next sweep does it
if #batch > 0 then close(g, '') end
return {ms(#batch), last, #batch == ROUND and '1' or '0'}
