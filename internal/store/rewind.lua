-- rewind ends the current execution of an instance, whether or not it has an end event, and begins the next one with the first events of
-- its history.
--
--! keys  partition wakeups record inbox history next_history next_reports stalled stalled_set from_index to_index pruned pruned_reports | index=move* deleted*
--! args  token instance head new_head keep# read# | move* result(place id)* prepend* release* field*
--! reply FENCED | CONFLICT what | OK now workers(deleted worker)* number
--
-- keep: number of events that are copied; read: number of inbox elements that the owner has read.
-- index, move: see commit.lua.
-- deleted: the leases of the execution that ends; prepend: elements to push in front of the inbox; release, field: fields of the record.
-- result: the completions of kept activities among the elements that were read, by index from 0 and id.
-- CONFLICT inbox: a completion has arrived since the owner read the inbox, or Redis has lost one that was read, for which its activity
-- would then wait.
-- workers: the workers that held deleted leases, by index among the deleted, from 1. number: see commit.lua.
--
-- The copy and all its consequences are one write. If the head is already the new head, an earlier attempt succeeded and its reply was
-- lost: the reply is OK, and nothing is written.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
local was = redis.call('HMGET', record, 'head', 'events')
local current = was[1] or ''
if current == new_head then return {'OK', t, {}, redis.call('HGET', partition, 'commits') or '0'} end
if current ~= head then return {'CONFLICT', 'head'} end
if redis.call('LLEN', history) ~= tonumber(was[2] or 0) then return {'CONFLICT', 'history'} end
local at, step = read, 128
while true do
  local batch = redis.call('LRANGE', inbox, at, at + step - 1)
  for _, e in ipairs(batch) do
    if string.sub(e, 1, 1) == 'a' then return {'CONFLICT', 'inbox'} end
  end
  at = at + step
  if #batch < step then break end
end
for i = 1, #result do
  local id = result[i].id .. '\n'
  if string.sub(redis.call('LINDEX', inbox, result[i].place) or '', 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end

-- A DEL as the first write would let the script continue without memory.
if redis.call('EXISTS', next_history, next_reports) > 0 then redis.call('DEL', next_history, next_reports) end
for from = 0, keep - 1, 500 do -- unpack fails for 8,000 values
  redis.call('RPUSH', next_history, unpack(redis.call('LRANGE', history, from, math.min(from + 500, keep) - 1)))
end
if string.sub(pruned, -2) ~= ':0' then redis.call('UNLINK', pruned, pruned_reports) end
local workers = {}
for i = 1, #deleted do
  local worker = redis.pcall('HGET', deleted[i], 'w')
  if type(worker) == 'string' then
    workers[#workers + 1] = i
    workers[#workers + 1] = worker
  end
  redis.call('DEL', deleted[i])
end
for i = #prepend, 1, -1 do redis.call('LPUSH', inbox, prepend[i]) end
local stamp = ms(t)
redis.call('HDEL', record, 'ended', 'end', 'unread', 'stalled')
for i = 1, #release, 500 do
  redis.call('HDEL', record, unpack(release, i, math.min(i + 499, #release)))
end
redis.call('HSET', record, 'head', new_head, 'updated', stamp, 'events', ms(keep))
for i = 1, #field, 500 do
  redis.call('HSET', record, unpack(field, i, math.min(i + 499, #field)))
end
if from_index ~= to_index then
  redis.call('ZREM', from_index, instance)
  redis.call('ZADD', to_index, stamp, instance)
end
for i = 1, #move do
  if move[i] == '-' then
    redis.call('ZREM', index[i], instance)
  else
    redis.call('ZADD', index[i], move[i], instance)
  end
end
redis.call('HDEL', stalled, instance)
redis.call('ZREM', stalled_set, instance)
schedule(wakeups, prepend[1], instance, stamp, '', t)
return {'OK', t, workers, redis.call('HINCRBY', partition, 'commits', '1')}
