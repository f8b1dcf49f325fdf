-- ingest: a batch of messages moves from the stream into inboxes, together with the position.
--
-- KEYS  1 partition  2 agenda  3 early  then for each message: record, inbox, seen
-- ARGV  1 token  2,3 position it continues from (sequence, time)  4,5 position it reaches
--       6 bound of an inbox  7 how many message ids an instance remembers  8 for how long, ms
--       9 bytes of an inbox (memory that it takes in Redis)  10 bytes of the early inputs of an instance  11 of all of them
--       12 seal of the partition, which the first line of each element ends with
--       then for each message: instance, message id or '', 's' for a start, 'c' for a cancel or '', element
-- answer  FENCED | CONFLICT sequence time | DONE now (this batch has been taken before)
--       (a full inbox still takes the start of its instance, and, once, the mark that something was dropped behind it:
--       so the instance fails by name also if this owner dies before it can say so)
--       | OK now {for each message: d repeat | f inbox full | o an early input over its bound | u cancel of an unknown instance
--         | e<n> has a record | n<n> has none; n = length of the inbox}
--
-- Inputs of an instance that has neither record nor start are early. Key 3 has their bytes by instance, and under '' all of them; the
-- start takes its instance out of it, and so does the commit that drops them. An early input over its bound leaves the mark, too, if
-- the instance has others.
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local at = redis.call('HMGET', KEYS[1], 'seq', 'time')
local seq, time = at[1] or '0', at[2] or '0'
if seq == ARGV[4] and time == ARGV[5] and (seq ~= ARGV[2] or time ~= ARGV[3]) then return {'DONE', ms(t)} end
if seq ~= ARGV[2] or time ~= ARGV[3] then return {'CONFLICT', seq, time} end

local fixed, keys = 12, 3 -- arguments and keys before those of the messages
local bound, remember, span = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local inbox_bytes, early_bytes, early_all = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local seal = ARGV[12] .. '\n' -- workers can push elements, but not this
local largest = 1200000 -- bytes: no element is larger, so that short inboxes need not be measured
local overhead = 512    -- of an early input: what Redis keeps for it beside the element
local count = (#ARGV - fixed) / 4
local known, length, size, started, taken, early, answer = {}, {}, {}, {}, {}, {}, {}
local early_now, early_changed

-- measure gives the memory that an inbox takes, before this batch. A Redis without MEMORY USAGE has it estimated.
local function measure(inbox, element)
  if size[inbox] == nil then
    size[inbox] = 0
    if length[inbox] * largest > inbox_bytes then
      local n = redis.pcall('MEMORY', 'USAGE', inbox, 'SAMPLES', 0)
      size[inbox] = type(n) == 'number' and n or length[inbox] * #element
    end
  end
  return size[inbox]
end

local function early_of(instance)
  if early[instance] == nil then early[instance] = tonumber(redis.call('HGET', KEYS[3], instance) or 0) end
  return early[instance]
end

local function set_early(instance, bytes)
  early_now = early_now or tonumber(redis.call('HGET', KEYS[3], '') or 0)
  early_now = early_now + bytes - early_of(instance)
  early[instance] = bytes
  early_changed = early_changed or {}
  early_changed[instance] = true
end

for m = 1, count do -- read all of it before the first write
  local record, inbox, seen = KEYS[keys + 3 * m - 2], KEYS[keys + 3 * m - 1], KEYS[keys + 3 * m]
  local instance, id, kind, element = ARGV[fixed + 4 * m - 3], ARGV[fixed + 4 * m - 2], ARGV[fixed + 4 * m - 1], ARGV[fixed + 4 * m]
  if known[record] == nil then
    known[record] = redis.call('EXISTS', record) == 1
    length[inbox] = redis.call('LLEN', inbox)
    if not known[record] and length[inbox] > 0 then
      local first = redis.call('LINDEX', inbox, 0)
      started[inbox] = string.sub(first, 1, 1) == '!' and string.find(first, seal, 1, true) ~= nil
    end
  end
  local absent = not known[record] and not started[inbox]
  local before = id ~= '' and (taken[seen .. id] or redis.call('ZSCORE', seen, id))
  if before and tonumber(before) > t - span then
    answer[m] = 'd'
  elseif kind == 'c' and absent then
    answer[m] = 'u'
  elseif not (kind == 's' and absent) and (length[inbox] >= bound or measure(inbox, element) >= inbox_bytes) then
    answer[m] = 'f'
  else
    if kind ~= 's' and absent then
      local own = early_of(instance) + #element + overhead
      early_now = early_now or tonumber(redis.call('HGET', KEYS[3], '') or 0)
      if own > early_bytes or early_now + own - early_of(instance) > early_all then
        answer[m] = 'o'
      else
        set_early(instance, own)
      end
    end
    if answer[m] ~= 'o' then
      if id ~= '' then taken[seen .. id] = t end
      length[inbox] = length[inbox] + 1
      answer[m] = (known[record] and 'e' or 'n') .. ms(length[inbox])
      -- the start of an unknown instance goes before what came early; a second start does not go before the first
      if kind == 's' and absent then
        started[inbox] = true
        if length[inbox] > 1 and early_of(instance) > 0 then set_early(instance, 0) end
        answer[m] = answer[m] .. '!'
      end
    end
  end
end

for m = 1, count do
  local inbox, seen = KEYS[keys + 3 * m - 1], KEYS[keys + 3 * m]
  local instance, id, element = ARGV[fixed + 4 * m - 3], ARGV[fixed + 4 * m - 2], ARGV[fixed + 4 * m]
  local said = answer[m]
  if said ~= 'd' and said ~= 'f' and said ~= 'o' and said ~= 'u' then
    if string.sub(said, -1) == '!' then
      redis.call('LPUSH', inbox, element)
      answer[m] = string.sub(said, 1, -2)
    else
      redis.call('RPUSH', inbox, element)
    end
    if id ~= '' then
      redis.call('ZADD', seen, ms(t), id)
      redis.call('ZREMRANGEBYSCORE', seen, '-inf', ms(t - span))
      redis.call('ZREMRANGEBYRANK', seen, 0, -remember - 1)
      redis.call('PEXPIRE', seen, ms(span))
    end
  end
  if said == 'f' or said == 'o' then
    local last = redis.call('LINDEX', inbox, -1)
    if last and not (string.sub(last, 1, 5) == 'full.' and string.find(last, seal, 1, true)) then
      redis.call('RPUSH', inbox, 'full.' .. ARGV[4] .. seal .. ms(t) .. '\n')
    end
  end
  if said ~= 'd' and said ~= 'o' and said ~= 'u' then hurry(KEYS[2], instance, t) end
end
for instance in pairs(early_changed or {}) do
  if early[instance] > 0 then
    redis.call('HSET', KEYS[3], instance, ms(early[instance]))
  else
    redis.call('HDEL', KEYS[3], instance)
  end
end
if early_changed then
  if early_now > 0 then
    redis.call('HSET', KEYS[3], '', ms(early_now))
  else
    redis.call('DEL', KEYS[3])
  end
end
redis.call('HSET', KEYS[1], 'seq', ARGV[4], 'time', ARGV[5])
return {'OK', ms(t), answer}
