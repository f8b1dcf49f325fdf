-- commit writes a turn, all or nothing: history, created and deleted leases, consumed inputs, next wakeup, status.
--
--! keys  partition wakeups record inbox history stalled stalled_set | status=moved* early=dropped* pruned=prune* created=create* index=move* updates=answer* deleted*
--! args  token instance head new_head wakeup new_incarnation max_unread# max_bytes# due applied | pop* event* create(effect proof claim)* field* prepend* move(score member)* answer(update body)* moved# dropped# prune# release*
--! reply FENCED | ROLLEDBACK | CONFLICT what | OK now unread* workers(deleted worker)* number
--
-- head: the head on which the turn was decided; new_head: '' if only the inbox is consumed; wakeup: ms, or ''.
-- status: the index that the instance leaves and the one that it enters, if its status changes.
-- early: the hash of early inputs, if the commit drops inputs of an instance that was never started.
-- pruned: the history of an execution that has ended, and its reports, which are deleted.
-- new_incarnation: '1' if the record must keep nothing of the previous instance with the id.
-- max_unread, max_bytes: bounds of the unread elements in the reply.
-- due: none of the first 16 elements after the popped ones may be older than this, ms; '' if not checked.
-- applied: the time of the applied position must not be earlier than this; '' if not checked.
-- pop: ids; event: encoded events; create: effect id and proof key of each lease, and "ttl token worker" if it is created claimed;
-- field: pairs of field and value for the record; prepend: elements to push in front of the inbox;
-- answer: answers to updates, by the key of the update ('': its input was dropped);
-- release: fields that are removed from the record before others are set.
-- index, move: sets from which a member is removed (score '-'; '=': only if the preceding set is empty now) or to which it is added: sets of
-- attribute values, whose members are instances, and the set of orchestrations.
-- CONFLICT history: the length of the history differs from the one in the record.
-- unread, workers: nil if there are none. workers: the workers that held deleted leases, by index among the deleted, from 1.
-- number: the number of this commit in the partition. An owner that receives the same number twice detects that Redis lost writes.
--
-- Prepended elements start the next execution: its history is empty, and its wakeup is now.
--
-- If the head is already the new head, an earlier attempt succeeded and its reply was lost. The reply is then OK, nothing is written, and
-- the workers are no longer available (they notice at their next renewal).
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end

local was = redis.call('HMGET', record, 'head', 'events', 'stalled')
local current, length = was[1] or '', num(was[2] or '0')
local again = new_head ~= '' and current == new_head
if not again and current ~= head then return {'CONFLICT', 'head'} end
-- If an earlier attempt started the next execution, the record describes that execution's history, not this one.
if not (again and #prepend > 0) and redis.call('LLEN', history) ~= length then return {'CONFLICT', 'history'} end
local pops, prepends = #pop, #prepend
if again then pops, prepends = 0, 0 end -- already popped and pushed
if not again and applied ~= '' and earlier(redis.call('HGET', partition, 'time') or '0', applied) then return {'ROLLEDBACK'} end

-- One read of the inbox returns the popped elements and, after them, the unread ones, so that a busy instance needs no separate read.
-- Further elements are read in batches, because they may be large.
local step = 16
local elements = redis.call('LRANGE', inbox, '0', ms(pops + step))
for k = 1, pops do
  local id = pop[k] .. '\n'
  if not elements[k] or string.sub(elements[k], 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end
if not again and due ~= '' then -- the doorbell of a completion was lost; the owner has every input that the stream had accepted
  for k = pops + 1, math.min(#elements, pops + step) do
    local at = tonumber(string.match(elements[k], '\n(%d+)\n') or '')
    if at and at < tonumber(due) then return {'CONFLICT', 'inbox'} end
  end
end
local unread = false -- false: none; an empty table costs more in a reply
if prepends > 0 or elements[pops + 1] then
  local room, fits = max_bytes, true
  unread = {}
  local function append(element) -- returns false if the reply is full
    room = room - #element
    if #unread >= max_unread or room < 0 and #unread > 0 then return false end
    unread[#unread + 1] = element
    return true
  end
  for k = 1, prepends do fits = fits and append(prepend[k]) end
  local at, batch, k, more = pops, elements, pops, #elements > pops + step
  while fits and #unread < max_unread do
    k = k + 1
    if not batch[k] and more then
      batch, k = redis.call('LRANGE', inbox, at, at + step), 1
      more = #batch > step
    end
    if not batch[k] then break end
    at = at + 1
    fits = append(batch[k])
  end
end
if again then return {'OK', t, unread, false, redis.call('HGET', partition, 'commits') or '0'} end
local stamp = ms(t)

-- LTRIM frees memory first. Without memory, a commit succeeds only if it pops, if it deletes leases and creates none, or if it changes the
-- status.
if pops > 0 then
  redis.call('LTRIM', inbox, ms(pops), '-1')
elseif #created == 0 and #deleted > 0 or #status > 0 then
  allowOOM(partition)
end
if #early > 0 then -- see ingest.lua
  local bytes = redis.call('HMGET', early[1], instance, '')
  if bytes[1] then
    local left = tonumber(bytes[1])
    for i = 1, pops do left = left - #elements[i] - 512 end
    if not elements[pops + 1] or left < 0 then left = 0 end
    local all = tonumber(bytes[2]) - tonumber(bytes[1]) + left
    if left > 0 then
      redis.call('HSET', early[1], instance, ms(left), '', ms(all))
    elseif all > 0 then
      redis.call('HDEL', early[1], instance)
      redis.call('HSET', early[1], '', ms(all))
    else
      redis.call('DEL', early[1])
    end
  end
end
for i = prepends, 1, -1 do redis.call('LPUSH', inbox, prepend[i]) end
for i = 1, #event, 500 do -- unpack fails for 8,000 values
  length = redis.call('RPUSH', history, unpack(event, i, math.min(i + 499, #event)))
end
if #pruned > 0 then redis.call('UNLINK', pruned[1], pruned[2]) end -- a history may be long; Redis frees it in the background
-- Create before delete: an activity that was scheduled and cancelled in the same turn must not leave a lease.
for i = 1, #created do
  -- An orphaned lease or a key of another type may exist. An error here would leave events of a turn that the record does not contain.
  if redis.pcall('HSET', created[i], 'e', create[i].effect, 'n', '0', 'c', stamp, 'k', create[i].proof) ~= 4 then
    redis.call('DEL', created[i])
    redis.call('HSET', created[i], 'e', create[i].effect, 'n', '0', 'c', stamp, 'k', create[i].proof)
  end
  if create[i].claim ~= '' then
    local ttl, holder, worker = string.match(create[i].claim, '^(%d+) (%S+) (.*)$')
    redis.call('HSET', created[i], 'n', '1', 't', holder, 'w', worker, 'u', ms(t + ttl), 'd', ttl)
  end
end
-- The ledger maps the key of an update to 'o' (open) and the position in INPUTS, in the format of 'orig', or to 'a' and the answer. Only
-- the latest answers are kept: '#' is the number of answers so far, '#first' the number of the oldest one kept, '#bytes' the bytes of those
-- kept, and '#<n>' the key of answer n.
for i = 1, #answer do
  local ledger, update, body = updates[i], answer[i].update, answer[i].body
  if body == '' then
    redis.pcall('HDEL', ledger, update)
  else
    local n = redis.pcall('HINCRBY', ledger, '#', '1')
    if type(n) ~= 'number' then -- a key of another type
      redis.call('UNLINK', ledger)
      n = redis.call('HINCRBY', ledger, '#', '1')
    end
    redis.call('HSET', ledger, update, 'a' .. body, '#' .. ms(n), update)
    local bytes = redis.call('HINCRBY', ledger, '#bytes', ms(#body + 1))
    local first = tonumber(redis.call('HGET', ledger, '#first') or '1')
    while first < n and (n - first >= 1000 or bytes > 8388608) do
      local oldest = redis.call('HGET', ledger, '#' .. ms(first)) or ''
      bytes = redis.call('HINCRBY', ledger, '#bytes', ms(-redis.call('HSTRLEN', ledger, oldest)))
      redis.call('HDEL', ledger, oldest, '#' .. ms(first))
      first = first + 1
    end
    redis.call('HSET', ledger, '#first', ms(first))
  end
end
local workers = false
for i = 1, #deleted do
  local worker = redis.pcall('HGET', deleted[i], 'w') -- of a lease; a key of another type is deleted, too
  if type(worker) == 'string' then
    workers = workers or {}
    workers[#workers + 1] = i
    workers[#workers + 1] = worker
  end
  redis.call('DEL', deleted[i])
end
if new_head ~= '' then
  if new_incarnation == '1' then
    redis.call('HDEL', record, 'ended', 'end', 'unread', 'parent', 'held', 'attributes', 'unanswered', 'prod', 'pub', 'control')
    redis.call('HDEL', record, 'custom.type', 'custom.data', 'custom.version')
    redis.call('HSET', record, 'replaced', '1')
  end
  for i = 1, #release, 500 do
    redis.call('HDEL', record, unpack(release, i, math.min(i + 499, #release)))
  end
  local most = math.min(500, #field)
  redis.call('HSET', record, 'head', new_head, 'updated', stamp, 'events', ms(prepends > 0 and 0 or length), unpack(field, 1, most))
  for i = most + 1, #field, 500 do
    redis.call('HSET', record, unpack(field, i, math.min(i + 499, #field)))
  end
  if #status > 0 then
    if head ~= '' then redis.call('ZREM', status[1], instance) end
    redis.call('ZADD', status[2], stamp, instance)
  end
  for i = 1, #move do
    if move[i].score == '-' then
      redis.call('ZREM', index[i], move[i].member)
    elseif move[i].score == '=' then
      if redis.call('EXISTS', index[i - 1]) == 0 then redis.call('ZREM', index[i], move[i].member) end
    else
      redis.call('ZADD', index[i], move[i].score, move[i].member)
    end
  end
  if head == '' or was[3] then redis.call('HDEL', stalled, instance) end
  if was[3] then
    redis.call('HDEL', record, 'stalled')
    redis.call('ZREM', stalled_set, instance)
  end
end
if prepends > 0 then
  schedule(wakeups, prepend[1], instance, stamp, '', t)
else
  schedule(wakeups, elements[pops + 1], instance, wakeup, '', t)
end
return {'OK', t, unread, workers, redis.call('HINCRBY', partition, 'commits', '1')}
