-- stats reads a limit, and the place of one member unless member is ''. It writes nothing.
--
--! args  member version policy declared
--! reply known now waiting holding first limited_until deadlocked policy entered completed refused timed_out withdrawn cleared place since version declared
--
-- member: '' for none; version: version of a policy that the limit may not have received yet, '' for none. known: '1' if the limit
-- exists.
-- first: the number of the first waiter, '' without waiters; place: position from 1, 0 for a holder, '' otherwise; since: its number.
local g = open(version, policy, declared)
window(g)
local n = redis.call('HMGET', state, 'e', 'c', 'r', 't', 'w', 'cl')
for i = 1, 6 do n[i] = n[i] or '0' end
local place, since = '', ''
if member ~= '' then
  local is = where(g, member)
  if is == 'q' then
    place, since = ms(redis.call('ZRANK', waiters, member) + 1), ms(g.number[member])
  elseif is == 'a' then
    place = '0'
  end
end
local first = redis.call('ZRANGE', waiters, 0, 0, 'WITHSCORES')[2]
local dead = g.dead and g.waiting > 0 and g.concurrency > 0 and g.holding >= g.concurrency
return {
  (g.known or not g.empty) and '1' or '0', ms(g.t), ms(g.waiting), ms(g.holding), first and ms(tonumber(first)) or '', ms(limited(g)), dead and '1' or '0',
  g.policy, n[1], n[2], n[3], n[4], n[5], n[6], place, since, g.version, g.declared,
}
