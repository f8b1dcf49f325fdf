-- stats reads a gate, and the place of one member if one is asked for. It writes nothing.
--
-- KEYS   see gate.lua
-- ARGV   1 member, or ''  2 version of a policy that the gate may not have been given yet, or ''  3 the policy  4 what the code declares
-- Answer {'1' if there is such a gate, now, waiting, holding, number of the first who waits ('' if nobody), limited until, '1' if deadlocked,
--         policy, entered, completed, refused, timed out, withdrawn, cleared, place (from 1; 0: it is in; '' it is neither), its number or time,
--         version of the policy, what the code declares}
local g = open(ARGV[2], ARGV[3], ARGV[4])
window(g)
local n = redis.call('HMGET', KEYS[5], 'n', 'o', 'f', 't', 'w', 'c')
for i = 1, 6 do n[i] = n[i] or '0' end
local place, since = '', ''
if ARGV[1] ~= '' then
  local is = where(g, ARGV[1])
  if is == 'q' then
    place, since = ms(redis.call('ZRANK', KEYS[1], ARGV[1]) + 1), ms(g.number[ARGV[1]])
  elseif is == 'a' then
    place = '0'
  end
end
local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
local dead = g.dead and g.waiting > 0 and g.concurrency > 0 and g.holding >= g.concurrency
return {
  (g.known or not g.empty) and '1' or '0', ms(g.t), ms(g.waiting), ms(g.holding), first and ms(tonumber(first)) or '', ms(limited(g)), dead and '1' or '0',
  g.policy, n[1], n[2], n[3], n[4], n[5], n[6], place, since, g.version, g.declared,
}
