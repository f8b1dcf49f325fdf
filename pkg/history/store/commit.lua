-- commit: a turn, all or nothing: history, new leases, deleted leases, consumed inbox, next look, status.
--
-- KEYS  1 partition  2 agenda  3 record  4 inbox  5 history  6 stuck  7 index of the old status  8 of the new one
--       9 history to delete, of an execution that is over (0: none)  10 its reports  11 early  then the leases to create, then the leases to delete
-- ARGV  1 token  2 instance  3 head it expects  4 head it sets ('': only the inbox is consumed)
--       5 next look, ms, or ''  6 ids popped  7 events  8 leases created  9 fields of the record (pairs)
--       10 elements put in front of the inbox  11 '1': another birth, which inherits nothing of the record
--       12 unread elements wanted in the answer  13 their bytes at the most  14 fields of the record taken away, before the others are set
--       15 none of the first 16 behind what is popped may be older, ms, or ''  16 the time of the applied position may not be older, or ''
--       then the ids, the events, the effect id and key of each lease, the fields, the elements, the names of the fields taken away
-- answer  FENCED | ROLLEDBACK | CONFLICT head | CONFLICT history (it is not as long as the record says) | CONFLICT inbox
--       | OK now {unread elements} {holders of the deleted leases: place among the deleted from 1, worker}
--         number of this commit in the partition: an owner that is answered one it has seen before knows that the store has forgotten
--
-- Elements in front begin the next execution: its history is empty, and it is looked at now.
--
-- A head that is already the new one means that an earlier sending succeeded and its reply was
-- lost: OK, nothing is written, and the holders are not known any more (the workers find out by renewing).
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local pops, events, creates, fields = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local fronts, forgone = tonumber(ARGV[10]), tonumber(ARGV[14])
local ids = 16
local event = ids + pops
local effect = event + events
local field = effect + 2 * creates
local front = field + fields
local forgo = front + fronts
local lease = 11

local is = redis.call('HMGET', KEYS[3], 'head', 'events')
local head = is[1] or ''
local again = ARGV[4] ~= '' and head == ARGV[4]
if not again and head ~= ARGV[3] then return {'CONFLICT', 'head'} end
-- Where an earlier sending began the next execution, the record tells of another history than this one.
if not (again and fronts > 0) and redis.call('LLEN', KEYS[5]) ~= tonumber(is[2] or 0) then return {'CONFLICT', 'history'} end
if again then pops, fronts = 0, 0 end -- they are popped, and pushed
if not again and ARGV[16] ~= '' and earlier(redis.call('HGET', KEYS[1], 'time') or '0', ARGV[16]) then return {'ROLLEDBACK'} end

-- One reading of the inbox shows what is popped and, behind it, what is unread, so that a busy
-- instance needs no separate read. More than a few are read by and by: they may be large.
local step = 16
local inbox = redis.call('LRANGE', KEYS[4], 0, pops + step)
for k = 1, pops do
  local id = ARGV[ids + k] .. '\n'
  if not inbox[k] or string.sub(inbox[k], 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end
if not again and ARGV[15] ~= '' then -- a completion whose doorbell was lost; what the stream had accepted is known to the owner
  for k = pops + 1, math.min(#inbox, pops + step) do
    local at = tonumber(string.match(inbox[k], '\n(%d+)\n') or '')
    if at and at < tonumber(ARGV[15]) then return {'CONFLICT', 'inbox'} end
  end
end
local want, room, unread = tonumber(ARGV[12]), tonumber(ARGV[13]), {}
local function tell(element) -- false: the answer is full
  room = room - #element
  if #unread >= want or room < 0 and #unread > 0 then return false end
  unread[#unread + 1] = element
  return true
end
local fits = true
for k = 1, fronts do fits = fits and tell(ARGV[front + k]) end
local at, some, k, more = pops, inbox, pops, #inbox > pops + step
while fits and #unread < want do
  k = k + 1
  if not some[k] and more then
    some, k = redis.call('LRANGE', KEYS[4], at, at + step), 1
    more = #some > step
  end
  if not some[k] then break end
  at = at + 1
  fits = tell(some[k])
end
if again then return {'OK', ms(t), unread, {}, redis.call('HGET', KEYS[1], 'commits') or '0'} end

-- What pops frees memory first. Without memory nothing else goes on but what deletes leases and creates none, or changes the status.
if creates == 0 and #KEYS > lease or KEYS[7] ~= KEYS[8] then allowOOM(KEYS[1]) end
if pops > 0 then redis.call('LTRIM', KEYS[4], pops, -1) end
if pops > 0 and ARGV[3] == '' and ARGV[4] == '' then -- inputs of an instance that was not started are dropped: see ingest
  local early = redis.call('HMGET', KEYS[11], ARGV[2], '')
  if early[1] then
    local left = tonumber(early[1])
    for k = 1, pops do left = left - #inbox[k] - 512 end
    if not inbox[pops + 1] or left < 0 then left = 0 end
    local all = tonumber(early[2]) - tonumber(early[1]) + left
    if left > 0 then
      redis.call('HSET', KEYS[11], ARGV[2], ms(left), '', ms(all))
    elseif all > 0 then
      redis.call('HDEL', KEYS[11], ARGV[2])
      redis.call('HSET', KEYS[11], '', ms(all))
    else
      redis.call('DEL', KEYS[11])
    end
  end
end
for k = fronts, 1, -1 do redis.call('LPUSH', KEYS[4], ARGV[front + k]) end
local length = tonumber(is[2] or 0)
for k = 1, events, 500 do -- unpack fails at 8,000
  length = redis.call('RPUSH', KEYS[5], unpack(ARGV, event + k, event + math.min(k + 499, events)))
end
if string.sub(KEYS[9], -2) ~= ':0' then redis.call('UNLINK', KEYS[9], KEYS[10]) end -- a history may be long, and Redis frees it aside
-- Create, then delete: what was scheduled and cancelled in one turn must not leave a lease.
for k = 1, creates do
  local key, effect_id, proof_key = KEYS[lease + k], ARGV[effect + 2 * k - 1], ARGV[effect + 2 * k]
  -- An orphan stood there, or a key of another type: an error here would leave the events of a turn that is not in the record.
  if redis.pcall('HSET', key, 'e', effect_id, 'n', '0', 'c', ms(t), 'k', proof_key) ~= 4 then
    redis.call('DEL', key)
    redis.call('HSET', key, 'e', effect_id, 'n', '0', 'c', ms(t), 'k', proof_key)
  end
end
local holders = {}
for k = lease + creates + 1, #KEYS do
  local worker = redis.pcall('HGET', KEYS[k], 'w') -- of a lease; a key of another type goes, too
  if type(worker) == 'string' then
    holders[#holders + 1] = k - lease - creates
    holders[#holders + 1] = worker
  end
  redis.call('DEL', KEYS[k])
end
if ARGV[4] ~= '' then
  if ARGV[11] == '1' then
    redis.call('HDEL', KEYS[3], 'ended', 'end', 'unread', 'parent', 'holds', 'custom.type', 'custom.data', 'custom.version', 'out', 'sent')
  end
  redis.call('HSET', KEYS[3], 'head', ARGV[4], 'updated', ms(t), 'events', ms(fronts > 0 and 0 or length))
  for k = 1, forgone, 500 do
    redis.call('HDEL', KEYS[3], unpack(ARGV, forgo + k, forgo + math.min(k + 499, forgone)))
  end
  for k = 1, fields, 500 do
    redis.call('HSET', KEYS[3], unpack(ARGV, field + k, field + math.min(k + 499, fields)))
  end
  if KEYS[7] ~= KEYS[8] then
    redis.call('ZREM', KEYS[7], ARGV[2])
    redis.call('ZADD', KEYS[8], ms(t), ARGV[2])
  end
  redis.call('HDEL', KEYS[6], ARGV[2])
end
if fronts > 0 then
  settle(KEYS[2], ARGV[front + 1], ARGV[2], ms(t), '', t)
else
  settle(KEYS[2], inbox[pops + 1], ARGV[2], ARGV[5], '', t)
end
return {'OK', ms(t), unread, holders, ms(redis.call('HINCRBY', KEYS[1], 'commits', 1))}
