-- purge removes an instance that has ended and has no pending messages. Inputs after the purge belong to the next instance with the id.
--
--! keys  partition wakeups record inbox stalled stalled_set index orchestrations updates unanswered | value=field* data*
--! args  token instance head applied | field* pop*
--! reply FENCED | ROLLEDBACK | CONFLICT head | CONFLICT inbox | OK now
--
-- applied: '' if a client requested the purge. Otherwise the retention period is over: then the inbox must be empty, and the time of the
-- applied position must not be earlier than this.
-- value: the sets of attribute values that contain the instance; field: the name of the orchestration if it is the set of an orchestration,
-- or ''; data: histories and reports; pop: ids at the head of the inbox.
-- unanswered: the set of instances with open updates. An instance with a ledger is removed from it, whatever its record contains.
--
-- No lease is left: the commit that ended the instance deleted them. The ids of received messages are kept for their hour, so that a
-- duplicate does not start the instance again. A start among the remaining inputs is moved to the front, as for an unknown instance.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
if (redis.call('HGET', record, 'head') or '') ~= head then return {'CONFLICT', 'head'} end
if applied ~= '' then
  if earlier(redis.call('HGET', partition, 'time') or '0', applied) then return {'ROLLEDBACK'} end
  if redis.call('EXISTS', inbox) == 1 then return {'CONFLICT', 'inbox'} end
end
local elements = redis.call('LRANGE', inbox, 0, #pop)
for k = 1, #pop do
  local id = pop[k] .. '\n'
  if not elements[k] or string.sub(elements[k], 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end

if #pop > 0 then redis.call('LTRIM', inbox, #pop, -1) end
local first = startFirst(inbox)
redis.call('DEL', record)
if redis.call('UNLINK', updates) == 1 then redis.call('ZREM', unanswered, instance) end
for k = 1, #data do redis.call('UNLINK', data[k]) end -- a history may be long; Redis frees it in the background
redis.call('ZREM', index, instance)
for k = 1, #value do
  redis.call('ZREM', value[k], instance)
  if field[k] ~= '' and redis.call('EXISTS', value[k]) == 0 then redis.call('ZREM', orchestrations, field[k]) end
end
redis.call('HDEL', stalled, instance)
redis.call('ZREM', stalled_set, instance)
schedule(wakeups, first, instance, first and ms(t) or '', '', t)
return {'OK', ms(t)}
