-- The beginning of every script of Pawl. All scripts check first and write last, because a Lua error does not undo earlier writes.
-- Numbers are converted to text only by ms(), because tostring and .. turn 1790000000000 into 1.79e+12. In a reply they remain numbers.

local clock

-- now returns Redis TIME in Unix milliseconds. It does not change while a script runs.
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000 + math.floor(t[2] / 1000)
  end
  return clock
end

-- ms formats a whole number with all its digits. '%.0f' takes three times as long, and a number as an argument of redis.call takes longer
-- still. Large numbers are cached, because the calls of an array share the time and the numbers derived from it. Smaller numbers are not
-- cached: the Lua of miniredis would allocate an array up to the greatest key below 2^26.
local texts = {}
local function ms(n)
  if n < 1000000000 then return string.format('%d', n) end
  local text = texts[n]
  if not text then
    text = string.format('%d', n)
    texts[n] = text
  end
  return text
end

-- num is tonumber with a cache for texts that repeat, such as counts: parsing a number takes four times as long as the lookup.
local numbers = {}
local function num(text)
  local n = numbers[text]
  if not n then
    n = tonumber(text)
    numbers[text] = n
  end
  return n
end

-- counts returns the numbers that countsOf has encoded: one byte each or, after a byte 255, as decimals.
local function counts(text)
  if string.byte(text) ~= 255 then return string.byte(text, 1, -1) end
  local all = {}
  for n in string.gmatch(text, '%d+') do all[#all + 1] = tonumber(n) end
  return unpack(all)
end

-- expired reports whether a claim until `till`, made for a duration `span`, has expired at `t`.
-- A claim that would last longer than its span was made before the clock stepped back, and has expired, too.
local function expired(till, span, t)
  till, span = tonumber(till) or 0, num(span or '') or 0
  return till <= t or till > t + span
end

-- earlier compares two times in nanoseconds, as text because they exceed the precision of Lua's numbers: of two texts of different
-- lengths the longer one is later, otherwise the greater one.
local function earlier(a, b) return #a < #b or #a == #b and a < b end

-- lost returns GONE, STOLEN or EXPIRED if a claim is no longer the caller's, and nil if it is.
-- f contains the fields e, t, u and d of the lease. With a nil effect, only the token identifies the claim.
local function lost(f, effect, token, t)
  if not f[1] or effect and f[1] ~= effect then return 'GONE' end
  if f[2] ~= token then return 'STOLEN' end
  if expired(f[3], f[4], t) then return 'EXPIRED' end
end

-- fenced reports whether `token` does not own the partition, or its ownership has expired.
local function fenced(partition, token, t)
  local o = redis.call('HMGET', partition, 'owner', 'until', 'span')
  return o[1] ~= token or expired(o[2], o[3], t)
end

-- schedule sets the next wakeup of an instance, as the last step of every owner script. If there are unread inputs (`first` is the first
-- one), the wakeup is within two seconds, unless the owner defers the inbox: deferral is '1' for always, 'e' until a start is first.
-- Otherwise the wakeup is `at` (ms, text), or none if at is '' or nil.
local function schedule(wakeups, first, instance, at, deferral, t)
  if first and deferral ~= '1' and (deferral ~= 'e' or string.sub(first, 1, 1) == '!') and (tonumber(at) or t + 2001) > t + 2000 then
    at = ms(t + 2000)
  end
  if at and at ~= '' then
    redis.call('ZADD', wakeups, at, instance)
  else
    redis.call('ZREM', wakeups, instance)
  end
end

-- allowOOM allows the script to continue writing while Redis is out of memory. Redis refuses a command that may allocate memory only as
-- long as the script has written nothing. This write frees memory and changes nothing, because no hash has a field with an empty name. It
-- is for scripts that free memory or keep ownership; a script that starts something new must be refused.
local function allowOOM(hash) redis.call('HDEL', hash, '') end

-- advance moves a wakeup forward to `at`, and never postpones it. Workers may write wakeups only in this way.
local function advance(wakeups, member, at)
  redis.call('ZADD', wakeups, 'LT', ms(at), member)
end

-- startFirst moves the first start in an inbox before all other inputs, as ingestion does for an unknown instance, and returns the first
-- element. It reads in batches, because an inbox may be long.
local function startFirst(inbox)
  local first, from, step = redis.call('LINDEX', inbox, '0'), 0, 128
  if not first or string.sub(first, 1, 1) == '!' then return first end
  while true do
    local batch = redis.call('LRANGE', inbox, from, from + step - 1)
    for _, e in ipairs(batch) do
      if string.sub(e, 1, 1) == '!' then
        redis.call('LREM', inbox, 1, e)
        redis.call('LPUSH', inbox, e)
        return e
      end
    end
    from = from + step
    if #batch < step then return first end
  end
end
