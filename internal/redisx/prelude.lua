-- Every script of Pawl begins with these. All scripts check first and write last,
-- because a Lua error does not undo the writes before it. Numbers leave Lua only
-- through ms(): tostring and .. turn 1790000000000 into 1.79e+12.

-- now is Redis TIME in Unix milliseconds.
local function now()
  local t = redis.call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- ms writes a number with all its digits.
local function ms(n) return string.format('%.0f', n) end

-- over tells whether a claim that lasts until `till`, made for `span`, is over at `t`.
-- One that lasts longer than it can was made before the clock stepped back: over too.
local function over(till, span, t)
  till, span = tonumber(till) or 0, tonumber(span) or 0
  return till <= t or till > t + span
end

-- earlier compares two times in nanoseconds, which are too long for Lua's numbers: of two texts, the longer one is later, else the
-- greater one.
local function earlier(a, b) return #a < #b or #a == #b and a < b end

-- lost tells why a claim is not the caller's any more: GONE, STOLEN or EXPIRED; nil if it is.
-- f is what the lease has as e, t, u, d; effect is nil where the token alone says what is meant.
local function lost(f, effect, token, t)
  if not f[1] or effect and f[1] ~= effect then return 'GONE' end
  if f[2] ~= token then return 'STOLEN' end
  if over(f[3], f[4], t) then return 'EXPIRED' end
end

-- fenced tells whether the partition's owner is somebody else than `token`, or its time is over.
local function fenced(partition, token, t)
  local o = redis.call('HMGET', partition, 'owner', 'until', 'span')
  return o[1] ~= token or over(o[2], o[3], t)
end

-- settle sets when the instance is looked at next. It ends every script of the owner:
-- an inbox with something unread (`first`, its first element) is looked at within two
-- seconds, unless the owner holds it back: '1' in any case, 'e' until a start stands first;
-- else `at` (ms) stands; with nothing due ('' or none) the member goes.
local function settle(agenda, first, instance, at, hold, t)
  local look = tonumber(at)
  local held = hold == '1' or hold == 'e' and string.sub(first or '', 1, 1) ~= '!'
  if first and not held and (not look or look > t + 2000) then look = t + 2000 end
  if look then
    redis.call('ZADD', agenda, ms(look), instance)
  else
    redis.call('ZREM', agenda, instance)
  end
end

-- allowOOM lets the script go on writing where Redis is out of memory. Redis refuses a command that may take memory only while
-- the script has written nothing. This write frees memory and changes nothing: no hash has a field without a name.
-- For scripts that free memory or keep ownership; what begins something new must be refused.
local function allowOOM(hash) redis.call('HDEL', hash, '') end

-- hurry brings the look forward to `at`, never back. Workers may do only this.
local function hurry(agenda, instance, at)
  redis.call('ZADD', agenda, 'LT', ms(at), instance)
end

-- startFirst puts the first start in an inbox in front of what came before it, as ingest does where there is no instance, and
-- returns the first element. It reads in batches, for an inbox may be long.
local function startFirst(inbox)
  local first, from, step = redis.call('LINDEX', inbox, 0), 0, 128
  if not first or string.sub(first, 1, 1) == '!' then return first end
  while true do
    local some = redis.call('LRANGE', inbox, from, from + step - 1)
    for _, e in ipairs(some) do
      if string.sub(e, 1, 1) == '!' then
        redis.call('LREM', inbox, 1, e)
        redis.call('LPUSH', inbox, e)
        return e
      end
    end
    from = from + step
    if #some < step then return first end
  end
end
