-- sweep repairs a limit: it rejects waiters that have waited too long, admits waiters while there is room, and reports the members whose
-- owners must be notified or checked.
--
--! args  version policy declared keyed
--! reply now waiting holding limited_until next deadlocked idle more version declared admitted* rejected* stale*
--
-- version: version of the policy, '' for none; policy: JSON; declared: the declaration; keyed: '1' if the limit has a key.
-- limited_until: ms, 0 if rate and quota allow a grant now; next: time of the next sweep, ms, 0 without members; idle: ms since the last
-- use, 0 unless the limit is empty;
-- more: '1' if there is more to do now. rejected: t or c and the member; stale: holders that have not been known to be required for two
-- seconds.
--
-- A rejected or stale member is reported again after two seconds, until its owner reacts.
local AGAIN = 2000
local g = open(version, policy, declared)
window(g)
if not g.known and g.empty then -- a sweep does not create a limit
  return {ms(g.t), '0', '0', '0', '0', '0', '86400000', '0', g.version, g.declared, {}, {}, {}}
end

-- inactive returns members that have not been active for AGAIN ms. A time in the future was recorded before the clock stepped back.
local function inactive(key)
  local found = redis.call('ZRANGEBYSCORE', key, '-inf', ms(g.t - AGAIN), 'LIMIT', 0, ROUND)
  if #found < ROUND then
    for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. ms(g.t), '+inf', 'LIMIT', 0, ROUND - #found)) do found[#found + 1] = m end
  end
  return found
end

-- touched returns the members, each after the current time, as arguments of ZADD.
local function touched(members)
  local args = {}
  for i, m in ipairs(members) do
    args[2 * i - 1], args[2 * i] = ms(g.t), m
  end
  return args
end

local stale, rejections = inactive(holders), inactive(rejected)
local more = #stale == ROUND or #rejections == ROUND
local checked, noticed = touched(stale), touched(rejections)

if g.waiting > 0 and g.timeout >= 0 then
  local late = redis.call('ZRANGEBYSCORE', waiters, '-inf', ms(g.us - g.timeout * 1000), 'LIMIT', 0, ROUND)
  for _, m in ipairs(late) do
    seen(g, m, 'q')
    move(g, m, 't')
    count(g, 't', 1)
    rejections[#rejections + 1] = 't' .. m
  end
  more = more or #late == ROUND
end
local admitted = promote(g)
more = more or #admitted == ROUND
if g.used > g.t then
  g.used = g.t
  g.set.u = ms(g.t)
end

-- deadlocked reports whether there are as many holders as the concurrency allows and every holder has a waiter among its descendants.
local function deadlocked()
  if g.nested == 0 or g.concurrency == 0 or g.holding < g.concurrency then return false end
  local parent, blocked, left = {}, {}, 0
  local at = 0
  for _, m in ipairs(redis.call('ZRANGE', holders, 0, -1)) do
    parent[string.match(m, '^[^ ]+')] = ancestor(m) or ''
    left = left + 1
  end
  while left > 0 do
    local batch = redis.call('ZRANGE', waiters, ms(at), ms(at + ROUND - 1))
    if #batch == 0 then return false end
    at = at + #batch
    for _, m in ipairs(batch) do
      local up = ancestor(m)
      while up and parent[up] and not blocked[up] do
        blocked[up] = true
        left = left - 1
        up = parent[up]
      end
    end
  end
  return true
end

close(g, keyed)
each('ZADD', holders, checked, CHUNK)
each('ZADD', rejected, noticed, CHUNK)
local dead = deadlocked()
if dead ~= g.dead then redis.call('HSET', state, 'dl', dead and '1' or '0') end

local till, next_sweep = limited(g), 0
local empty = g.waiting + g.holding + g.rejections == 0
if not empty then
  next_sweep = g.t + AGAIN
  if g.waiting > 0 then
    if till > 0 and (g.concurrency == 0 or g.holding < g.concurrency) then next_sweep = math.min(next_sweep, till) end
    local late = deadline(g, redis.call('ZRANGE', waiters, 0, 0, 'WITHSCORES')[2])
    if late > 0 then next_sweep = math.min(next_sweep, late) end
  end
  next_sweep = more and g.t or math.max(next_sweep, g.t + 1)
end
return {
  ms(g.t), ms(g.waiting), ms(g.holding), ms(till), ms(next_sweep), dead and '1' or '0', ms(empty and g.t - g.used or 0), more and '1' or '0',
  g.version, g.declared, admitted, rejections, stale,
}
