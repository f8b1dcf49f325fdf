-- change reads and writes the state of a change of the number of partitions.
--
--! keys  meta
--! args  token verb state
--! reply NONE | LOST | OK partitions state
--
-- verb: take fences earlier runs; save writes the state; commit writes the new number of partitions, passed as `state`, and ends the change.
-- NONE: there is no namespace. LOST: a later run has taken over the change.
local number = redis.call('HGET', meta, 'partitions')
if not number then return {'NONE'} end
if verb == 'take' then
  redis.call('HSET', meta, 'resizer', token)
elseif redis.call('HGET', meta, 'resizer') ~= token then
  if verb == 'commit' and number == state and redis.call('HEXISTS', meta, 'resizer') == 0 then return {'OK', number, ''} end -- a repeat
  return {'LOST'}
elseif verb == 'save' then
  redis.call('HSET', meta, 'resize', state)
else
  number = state
  redis.call('HSET', meta, 'partitions', state)
  redis.call('HDEL', meta, 'resize', 'resizer')
end
return {'OK', number, redis.call('HGET', meta, 'resize') or ''}
