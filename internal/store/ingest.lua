-- ingest moves a batch of messages from the stream to inboxes, and advances the applied position.
--
--! keys  partition wakeups early | to(record inbox ids)*
--! args  token from_seq from_time to_seq to_time max_inbox# max_ids# span max_inbox_bytes# max_early# max_all_early# seal | message(instance id kind element)*
--! reply FENCED | CONFLICT sequence time | DONE now | OK now message*
--
-- max_ids, span: how many message ids are kept per instance, and for how many ms.
-- max_inbox_bytes: maximum memory of an inbox in Redis; max_early, max_all_early: maximum bytes of the early inputs of an instance, and of
-- all instances.
-- seal: the seal of the partition, with which the first line of each element ends.
-- message: its id or ''; its kind: 's' for a start, 'i' for a start that has no effect on an existing instance, 'c' for a cancel, 'u' for
-- an update, whose ids are those of the ledger of updates, or ''.
-- DONE: this batch was already ingested.
-- Each message is reported as d duplicate | f inbox full | o early input beyond its bound | u cancel of an unknown instance
-- | e<n> pushed, with a record | n<n> pushed, without a record; n = length of the inbox.
--
-- A full inbox still accepts the start of its instance and, once, the mark that an input was dropped after it, so that the instance fails
-- with that error even if this owner dies before it can report it.
--
-- A start of kind i directly after another start is a duplicate: by then the instance exists. So starts cannot fill an inbox that is held
-- back.
--
-- Inputs of an instance that has neither a record nor a start are early. The hash `early` counts their bytes per instance and, under
-- the key '', in total. The start of the instance removes its entry, and so does the commit that drops the inputs. An early input beyond
-- its bound also leaves the mark, if the instance has other early inputs.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
local applied = redis.call('HMGET', partition, 'seq', 'time')
local seq, time = applied[1] or '0', applied[2] or '0'
if seq == to_seq and time == to_time and (seq ~= from_seq or time ~= from_time) then return {'DONE', t} end
if seq ~= from_seq or time ~= from_time then return {'CONFLICT', seq, time} end

seal = seal .. '\n' -- workers can push elements, but do not have the seal
local stamp, horizon = ms(t), ms(t - span)
local largest = 1200000 -- bytes: no element is larger, so that short inboxes need not be measured
local overhead = 512 -- bytes that Redis uses for an early input in addition to the element
local known, length, size, remembered, started, ends_in_start, taken, early_bytes, reply = {}, {}, {}, {}, {}, {}, {}, {}, {}
local all_early, changed

-- measure returns the memory that an inbox used before this batch. Without the command MEMORY USAGE it is estimated.
local function measure(inbox, element)
  if size[inbox] == nil then
    size[inbox] = 0
    if length[inbox] * largest > max_inbox_bytes then
      local n = redis.pcall('MEMORY', 'USAGE', inbox, 'SAMPLES', 0)
      size[inbox] = type(n) == 'number' and n or length[inbox] * #element
    end
  end
  return size[inbox]
end

local function early_of(instance)
  if early_bytes[instance] == nil then early_bytes[instance] = tonumber(redis.call('HGET', early, instance) or 0) end
  return early_bytes[instance]
end

local function set_early(instance, bytes)
  all_early = all_early or tonumber(redis.call('HGET', early, '') or 0)
  all_early = all_early + bytes - early_of(instance)
  early_bytes[instance] = bytes
  changed = changed or {}
  changed[instance] = true
end

-- seen reports whether a message with the id was already received: within the span or, for an update, according to its ledger (commit.lua).
local function seen(ids, id, kind)
  if kind == 'u' then return redis.pcall('HEXISTS', ids, id) == 1 end
  if not remembered[ids] then remembered[ids] = redis.call('ZCARD', ids) end
  if remembered[ids] == 0 then return false end
  local at = redis.call('ZSCORE', ids, id)
  return at and tonumber(at) > t - span
end

-- is_start reports whether an element is a start that ingest pushed.
local function is_start(element)
  return element and string.sub(element, 1, 1) == '!' and string.find(element, seal, 1, true) ~= nil
end

local function behind_start(inbox)
  if ends_in_start[inbox] == nil then ends_in_start[inbox] = is_start(redis.call('LINDEX', inbox, -1)) end
  return ends_in_start[inbox]
end

for m = 1, #message do -- read everything before the first write
  local record, inbox, ids = to[m].record, to[m].inbox, to[m].ids
  local instance, id, kind, element = message[m].instance, message[m].id, message[m].kind, message[m].element
  if known[record] == nil then
    known[record] = redis.call('EXISTS', record) == 1
    length[inbox] = redis.call('LLEN', inbox)
    if not known[record] and length[inbox] > 0 then
      started[inbox] = is_start(redis.call('LINDEX', inbox, 0))
    end
  end
  local absent = not known[record] and not started[inbox]
  local start = kind == 's' or kind == 'i'
  if id ~= '' and (taken[ids .. id] or seen(ids, id, kind)) then
    reply[m] = 'd'
  elseif kind == 'c' and absent then
    reply[m] = 'u'
  elseif kind == 'i' and not absent and behind_start(inbox) then
    reply[m] = 'd'
  elseif not (start and absent) and (length[inbox] >= max_inbox or measure(inbox, element) >= max_inbox_bytes) then
    reply[m] = 'f'
    ends_in_start[inbox] = false -- the mark
  else
    if not start and absent then
      local own = early_of(instance) + #element + overhead
      all_early = all_early or tonumber(redis.call('HGET', early, '') or 0)
      if own > max_early or all_early + own - early_of(instance) > max_all_early then
        reply[m] = 'o'
        ends_in_start[inbox] = false
      else
        set_early(instance, own)
      end
    end
    if reply[m] ~= 'o' then
      if id ~= '' then taken[ids .. id] = true end
      length[inbox] = length[inbox] + 1
      ends_in_start[inbox] = start and (not absent or length[inbox] == 1)
      reply[m] = (known[record] and 'e' or 'n') .. ms(length[inbox])
      -- the start of an unknown instance is pushed in front of its early inputs, but never in front of an earlier start
      if start and absent then
        started[inbox] = true
        if length[inbox] > 1 and early_of(instance) > 0 then set_early(instance, 0) end
        reply[m] = reply[m] .. '!'
      end
    end
  end
end

for m = 1, #message do
  local inbox, ids = to[m].inbox, to[m].ids
  local instance, id, element = message[m].instance, message[m].id, message[m].element
  local verdict = reply[m]
  if verdict ~= 'd' and verdict ~= 'f' and verdict ~= 'o' and verdict ~= 'u' then
    if string.sub(verdict, -1) == '!' then
      redis.call('LPUSH', inbox, element)
      reply[m] = string.sub(verdict, 1, -2)
    else
      redis.call('RPUSH', inbox, element)
    end
    if id ~= '' and message[m].kind == 'u' then
      local place, at = string.match(element, '^!?s(%d+)[^\n]*\n(%d+)\n')
      local open = place and 'o' .. place .. '.' .. at .. '000000' or 'o'
      if type(redis.pcall('HSET', ids, id, open)) == 'table' then -- a key of another type
        redis.call('UNLINK', ids)
        redis.call('HSET', ids, id, open)
      end
    elseif id ~= '' then
      redis.call('ZADD', ids, stamp, id)
      remembered[ids] = remembered[ids] + 1
      if remembered[ids] > 1 then redis.call('ZREMRANGEBYSCORE', ids, '-inf', horizon) end
      if remembered[ids] > max_ids then redis.call('ZREMRANGEBYRANK', ids, 0, -max_ids - 1) end
      redis.call('PEXPIRE', ids, span)
    end
  end
  if verdict == 'f' or verdict == 'o' then
    local last = redis.call('LINDEX', inbox, -1)
    if last and not (string.sub(last, 1, 5) == 'full.' and string.find(last, seal, 1, true)) then
      redis.call('RPUSH', inbox, 'full.' .. to_seq .. seal .. ms(t) .. '\n')
    end
  end
  if verdict ~= 'd' and verdict ~= 'o' and verdict ~= 'u' then advance(wakeups, instance, t) end
end
for instance in pairs(changed or {}) do
  if early_bytes[instance] > 0 then
    redis.call('HSET', early, instance, ms(early_bytes[instance]))
  else
    redis.call('HDEL', early, instance)
  end
end
if changed then
  if all_early > 0 then
    redis.call('HSET', early, '', ms(all_early))
  else
    redis.call('DEL', early)
  end
end
redis.call('HSET', partition, 'seq', to_seq, 'time', to_time)
return {'OK', t, reply}
