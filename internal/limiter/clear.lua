-- clear rejects the waiters, a thousand at a time.
--
--! args  last
--! reply cleared last more
--
-- last: the number of the last waiter to reject, '' for all present waiters; cleared: number of rejected waiters; more: '1' if there are
-- more to reject.
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
g.noticed = 0 -- no owner has been notified; the next sweep notifies them
if #batch > 0 then close(g, '') end
return {ms(#batch), last, #batch == ROUND and '1' or '0'}
