-- purge: an instance that has ended, and owes nobody anything, is no more. What came behind the purge is another's.
--
-- KEYS  1 partition  2 agenda  3 record  4 inbox  5 stuck  6 index of its status  then histories and reports
-- ARGV  1 token  2 instance  3 head it expects  4 its time is over: nothing may be unread, and the time of the applied position may
--       not be older than this; '' if it was asked for  then the ids popped
-- answer  FENCED | ROLLEDBACK | CONFLICT head | CONFLICT inbox | OK now
--
-- No lease is left: the commit that ended the instance has deleted them. The message ids that it has taken stay, for
-- their hour: a repeat must not bring it back. A start among what is left goes in front, as before an unknown instance.
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
if (redis.call('HGET', KEYS[3], 'head') or '') ~= ARGV[3] then return {'CONFLICT', 'head'} end
if ARGV[4] ~= '' then
  if earlier(redis.call('HGET', KEYS[1], 'time') or '0', ARGV[4]) then return {'ROLLEDBACK'} end
  if redis.call('EXISTS', KEYS[4]) == 1 then return {'CONFLICT', 'inbox'} end
end
local pops = #ARGV - 4
local inbox = redis.call('LRANGE', KEYS[4], 0, pops)
for k = 1, pops do
  local id = ARGV[4 + k] .. '\n'
  if not inbox[k] or string.sub(inbox[k], 1, #id) ~= id then return {'CONFLICT', 'inbox'} end
end

if pops > 0 then redis.call('LTRIM', KEYS[4], pops, -1) end
local first = startFirst(KEYS[4])
redis.call('DEL', KEYS[3])
for k = 7, #KEYS do redis.call('UNLINK', KEYS[k]) end -- a history may be long, and Redis frees it aside
redis.call('ZREM', KEYS[6], ARGV[2])
redis.call('HDEL', KEYS[5], ARGV[2])
settle(KEYS[2], first, ARGV[2], first and ms(t) or '', '', t)
return {'OK', ms(t)}
