-- sweep keeps a gate going: it turns away who has waited too long, lets in who can be, and says who has to be told or asked about.
--
-- KEYS   see gate.lua
-- ARGV   1 version of the policy, '' for none  2 policy, JSON  3 declaration  4 '1' if the gate has a key
-- Answer {now, waiting, holding, limited until (0: it is not), when to look again (ms; 0: nobody is there), '1' if it is deadlocked,
--         ms since the last use (0 unless it is empty), '1' if there is more to do now, version, declaration,
--         {let in}, {turned away: t or c and the member}, {in, and not known as wanted for two seconds}}
--
-- Whoever is answered as turned away, or as not known as wanted, is answered again after two seconds if nothing comes of it.
local AGAIN = 2000
local g = open(ARGV[1], ARGV[2], ARGV[3])
window(g)
if not g.known and g.empty then -- nothing is made for a gate that is not there
  return { ms(g.t), '0', '0', '0', '0', '0', '86400000', '0', g.version, g.declared, {}, {}, {} }
end

-- since finds whom nothing was heard of for so long; a time in the future is from before the clock stepped back.
local function since(key)
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', ms(g.t - AGAIN), 'LIMIT', 0, ROUND)
  if #found < ROUND then
    for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. ms(g.t), '+inf', 'LIMIT', 0, ROUND - #found)) do found[#found + 1] = m end
  end
  return found
end
local stale, away = since(KEYS[2]), since(KEYS[3])
local more = #stale == ROUND or #away == ROUND
local told = {}
for i, m in ipairs(away) do
  told[2 * i - 1], told[2 * i] = ms(g.t), m
end
local asked = {}
for i, m in ipairs(stale) do
  asked[2 * i - 1], asked[2 * i] = ms(g.t), m
end

if g.waiting > 0 and g.timeout >= 0 then
  local late = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ms(g.us - g.timeout * 1000), 'LIMIT', 0, ROUND)
  for _, m in ipairs(late) do
    seen(g, m, 'q')
    move(g, m, 't')
    count(g, 't', 1)
    away[#away + 1] = 't' .. m
  end
  more = more or #late == ROUND
end
local into = promote(g)
more = more or #into == ROUND
if g.used > g.t then
  g.used = g.t
  g.set.u = ms(g.t)
end

-- deadlocked: no room by concurrency, and everybody who is in has somebody waiting under it, or somebody in who is so.
local function deadlocked()
  if g.under == 0 or g.concurrency == 0 or g.holding < g.concurrency then return false end
  local parent, blocked, left = {}, {}, 0
  local at = 0
  for _, m in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    parent[string.match(m, '^[^ ]+')] = above(m) or ''
    left = left + 1
  end
  while left > 0 do
    local some = redis.call('ZRANGE', KEYS[1], ms(at), ms(at + ROUND - 1))
    if #some == 0 then return false end
    at = at + #some
    for _, m in ipairs(some) do
      local up = above(m)
      while up and parent[up] and not blocked[up] do
        blocked[up] = true
        left = left - 1
        up = parent[up]
      end
    end
  end
  return true
end

close(g, ARGV[4])
each('ZADD', KEYS[2], asked, CHUNK)
each('ZADD', KEYS[3], told, CHUNK)
local dead = deadlocked()
if dead ~= g.dead then redis.call('HSET', KEYS[5], 'b', dead and '1' or '0') end

local till, look = limited(g), 0
local empty = g.waiting + g.holding + g.away == 0
if not empty then
  look = g.t + AGAIN
  if g.waiting > 0 then
    if till > 0 and (g.concurrency == 0 or g.holding < g.concurrency) then look = math.min(look, till) end
    local late = deadline(g, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2])
    if late > 0 then look = math.min(look, late) end
  end
  look = more and g.t or math.max(look, g.t + 1)
end
return {
  ms(g.t), ms(g.waiting), ms(g.holding), ms(till), ms(look), dead and '1' or '0', ms(empty and g.t - g.used or 0), more and '1' or '0',
  g.version, g.declared, into, away, stale,
}
