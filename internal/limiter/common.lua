-- Shared by the scripts that work on one limit.
--
--! keys  waiters holders rejected grants state
--
-- A script opens the limit, moves members in memory, and closes it: close() performs all writes, after all checks. The place of a member
-- is a letter: q waits, a active (holds), t timed out, c cleared, '' none. doc.go describes the keys.

local ROUND = 1000 -- maximum number of members that one script admits, rejects or reports as stale
local CHUNK = 500 -- maximum number of arguments of one command

-- open reads the limit, and applies the policy unless its version is older than that of the limit (version '': no policy).
local function open(version, policy, declared)
  local time = redis.call('TIME')
  local s = redis.call('HMGET', state, 'v', 'p', 'd', 'seq', 'qs', 'qn', 'u', 'ha', 'dl')
  local g = {
    us = tonumber(time[1]) * 1000000 + tonumber(time[2]), known = s[7] and true or false, used = tonumber(s[7]) or 0,
    last = tonumber(s[4]) or 0, nested = tonumber(s[8]) or 0, dead = s[9] == '1', version = s[1] or '0', declared = s[3] or '',
    waiting = redis.call('ZCARD', waiters), holding = redis.call('ZCARD', holders), rejections = redis.call('ZCARD', rejected),
    was = {}, is = {}, number = {}, fresh = {}, order = {}, gone = 0, -- about the members that the script has read
    grants = 0, set = {}, add = {}, noticed = nil,
  }
  g.t = math.floor(g.us / 1000)
  g.noticed = g.t
  g.queued, g.any_rejected, g.empty = g.waiting > 0, g.rejections > 0, g.waiting + g.holding + g.rejections == 0
  local text = s[2]
  if version ~= '' and tonumber(version) >= tonumber(g.version) then
    if g.version ~= version or text ~= policy or g.declared ~= declared or not s[1] then
      g.set.v, g.set.p, g.set.d = version, policy, declared
    end
    g.version, g.declared, text = version, declared, policy
  end
  g.policy = text or ''
  local p = text and cjson.decode(text) or {}
  g.concurrency, g.rate, g.span = p.concurrency or 0, p.rate or 0, p.rate_window_ms or 0
  g.quota, g.period, g.reject = p.quota or 0, p.quota_window_ms or 0, p.reject
  g.paused = p.paused
  g.limit, g.timeout = p.queue_limit or 0, p.queue_timeout_ms or 0
  if g.limit == 0 then g.limit = 10000 end
  if g.timeout == 0 then g.timeout = 3600000 end

  -- The quota window is open until its end. One in the future is void: the clock has stepped back.
  local since = tonumber(s[5])
  if since and since <= g.t and g.t < since + g.period then
    g.since, g.spent = since, tonumber(s[6]) or 0
  else
    g.since, g.spent = nil, 0
  end
  return g
end

-- ends counts the consecutive grants at one end of the list (new: the newest ones, otherwise the oldest) that satisfy `is`.
local function ends(new, is)
  local n = 0
  while true do
    local batch = new and redis.call('LRANGE', grants, -n - 100, -n - 1) or redis.call('LRANGE', grants, n, n + 99)
    for i = 1, #batch do
      if not is(tonumber(batch[new and #batch + 1 - i or i])) then return n end
      n = n + 1
    end
    if #batch < 100 then return n end
  end
end

-- window finds the grants that count toward the rate: `rated` of them, after the first `past` of the list. Those after them are in the
-- future.
local function window(g)
  g.past, g.rated, g.listed = 0, 0, redis.call('LLEN', grants)
  if g.rate == 0 or g.listed == 0 then return end
  local future = 0
  if tonumber(redis.call('LINDEX', grants, -1)) > g.t then future = ends(true, function(at) return at > g.t end) end
  if tonumber(redis.call('LINDEX', grants, 0)) + g.span <= g.t then g.past = ends(false, function(at) return at + g.span <= g.t end) end
  g.rated = g.listed - future - g.past
end

-- room returns how many more members may be admitted now.
local function room(g)
  if g.paused then return 0 end
  local n = math.huge
  if g.concurrency > 0 then n = g.concurrency - g.holding end
  if g.rate > 0 then n = math.min(n, g.rate - g.rated - g.grants) end
  if g.quota > 0 then n = math.min(n, g.quota - g.spent - g.grants) end
  return n
end

-- limited returns the time at which rate and quota allow the next grant, ms, or 0 if they allow one now. It must be called after close(),
-- or if nothing was granted.
local function limited(g)
  local at = 0
  if g.rate > 0 and g.rated >= g.rate then
    at = tonumber(redis.call('LINDEX', grants, g.past + g.rated - g.rate)) + g.span
  end
  if g.quota > 0 and g.spent >= g.quota and g.since then at = math.max(at, g.since + g.period) end
  return at
end

-- deadline returns the time at which the waiter with this number times out, ms, or 0 if it does not.
local function deadline(g, number)
  if g.timeout < 0 then return 0 end
  return math.ceil(tonumber(number) / 1000) + g.timeout
end

-- seen records where a member was before the script.
local function seen(g, m, where)
  g.was[m], g.is[m] = where, where
  g.order[#g.order + 1] = m
  return where
end

-- where returns the place of a member.
local function where(g, m)
  if g.is[m] then return g.is[m] end
  if redis.call('ZSCORE', holders, m) then return seen(g, m, 'a') end
  local number = g.queued and redis.call('ZSCORE', waiters, m)
  if number then
    g.number[m] = tonumber(number)
    return seen(g, m, 'q')
  end
  if g.any_rejected and redis.call('ZSCORE', rejected, 't' .. m) then return seen(g, m, 't') end
  if g.any_rejected and redis.call('ZSCORE', rejected, 'c' .. m) then return seen(g, m, 'c') end
  return seen(g, m, '')
end

-- last_active returns the time at which a member was last active, ms; for a waiter, the time at which it entered.
local function last_active(g, m)
  local is = where(g, m)
  if is == 'q' then return math.floor(g.number[m] / 1000) + 1 end
  if is == 'a' then return tonumber(redis.call('ZSCORE', holders, m) or g.t + 1) end
  return tonumber(redis.call('ZSCORE', rejected, is .. m) or g.t + 1)
end

-- count adds n to a counter of the limit.
local function count(g, field, n) g.add[field] = (g.add[field] or 0) + n end

-- ancestor returns the ticket of the ancestor that holds the same limit, or nil if the member names none.
local function ancestor(m) return string.match(m, '^[^ ]+ [^ ]+ [^ ]+ (.+)$') end

-- tally adds n, 1 or -1, to the number of members in a place.
local function tally(g, m, place, n)
  if place == 'q' then
    g.waiting = g.waiting + n
    if n < 0 then g.gone = g.gone + 1 end
    if ancestor(m) then
      g.nested = g.nested + n
      count(g, 'ha', n)
    end
  elseif place == 'a' then
    g.holding = g.holding + n
  elseif place ~= '' then
    g.rejections = g.rejections + n
  end
end

-- move moves a member to another place.
local function move(g, m, to)
  tally(g, m, where(g, m), -1)
  tally(g, m, to, 1)
  g.is[m] = to
end

-- queue makes a member a waiter, with the next number.
local function queue(g, m)
  g.last = math.max(g.us, g.last + 1)
  g.set.seq = ms(g.last)
  g.number[m], g.fresh[m] = g.last, true
  move(g, m, 'q')
end

-- grant makes a member a holder.
local function grant(g, m)
  g.grants, g.fresh[m] = g.grants + 1, true
  move(g, m, 'a')
end

-- promote admits waiters in FIFO order while there is room, at most ROUND, and returns them.
local function promote(g)
  local admitted, at = {}, 0
  while g.waiting > 0 and room(g) > 0 and #admitted < ROUND do
    -- the set still contains the members that this script has removed
    local head = redis.call('ZRANGE', waiters, ms(at), ms(at + math.min(CHUNK, room(g) + g.gone) - 1))
    if #head == 0 then break end
    at = at + #head
    for _, m in ipairs(head) do
      if not g.is[m] then seen(g, m, 'q') end
      if g.was[m] == 'q' and g.is[m] == 'q' and room(g) > 0 and #admitted < ROUND then
        grant(g, m)
        admitted[#admitted + 1] = m
      end
    end
  end
  return admitted
end

-- each runs a command with args, `size` of them at a time.
local function each(command, key, args, size)
  for i = 1, #args, size do redis.call(command, key, unpack(args, i, math.min(i + size - 1, #args))) end
end

-- shift writes the changed places and times of members.
local function shift(g)
  local key = {q = waiters, a = holders, t = rejected, c = rejected}
  local prefix = {q = '', a = '', t = 't', c = 'c'}
  local out, into = {q = {}, a = {}, x = {}}, {q = {}, a = {}, x = {}}
  local set = {q = 'q', a = 'a', t = 'x', c = 'x'}
  for _, m in ipairs(g.order) do
    local was, is = g.was[m], g.is[m]
    if was ~= '' and was ~= is then
      local l = out[set[was]]
      l[#l + 1] = prefix[was] .. m
    end
    if g.fresh[m] and (is == 'q' or is == 'a') or is ~= '' and was ~= is then
      local l = into[set[is]]
      l[#l + 1] = ms(is == 'q' and g.number[m] or is == 'a' and g.t or g.noticed)
      l[#l + 1] = prefix[is] .. m
    end
  end
  for name, k in pairs({q = key.q, a = key.a, x = key.t}) do
    each('ZREM', k, out[name], CHUNK)
    each('ZADD', k, into[name], CHUNK)
  end
end

-- charge adds the grants to the rate window and the quota.
local function charge(g)
  if g.rate == 0 or g.rated == 0 then
    if g.listed > 0 then redis.call('DEL', grants) end
  elseif g.rated < g.listed then
    redis.call('LTRIM', grants, g.past, g.past + g.rated - 1)
  end
  g.past = 0
  if g.grants == 0 then return end
  if g.rate > 0 then
    local times = {}
    for i = 1, g.grants do times[i] = ms(g.t) end
    each('RPUSH', grants, times, CHUNK)
    g.rated = g.rated + g.grants
  end
  if g.quota > 0 then
    g.since, g.spent = g.since or g.t, g.spent + g.grants
    g.set.qs, g.set.qn = ms(g.since), ms(g.spent)
  end
end

-- close performs all writes. keyed: '1' if the limit belongs to a value of a key. The keys of such a limit expire an hour after its last
-- use, but not before its rate and quota windows end.
local function close(g, keyed)
  allowOOM(state) -- places and slots must not be lost; the maximum number of waiters bounds the memory for entries
  shift(g)
  charge(g)
  local fields = {}
  for f, v in pairs(g.set) do
    fields[#fields + 1] = f
    fields[#fields + 1] = v
  end
  if #fields > 0 then redis.call('HSET', state, unpack(fields)) end
  for f, n in pairs(g.add) do
    if n ~= 0 then redis.call('HINCRBY', state, f, n) end
  end
  if keyed ~= '1' then return end
  local empty = g.waiting + g.holding + g.rejections == 0
  for _, k in ipairs({grants, state}) do
    if empty then
      redis.call('PEXPIREAT', k, ms(math.max(g.used + math.max(3600000, g.rate > 0 and g.span or 0), g.since and g.quota > 0 and g.since + g.period or 0)))
    elseif g.empty then
      redis.call('PERSIST', k)
    end
  end
end
