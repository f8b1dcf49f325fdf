-- renew: the owner goes on owning, if Redis still has what it had acknowledged.
--
-- KEYS  1 partition
-- ARGV  1 token  2 span, ms  3,4 highest applied position acknowledged to this owner (sequence, time)
--       5 highest number of commits acknowledged to it
-- answer  FENCED | ROLLEDBACK sequence time commits | OK
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local at = redis.call('HMGET', KEYS[1], 'seq', 'time', 'commits')
local seq, time, commits = at[1] or '0', at[2] or '0', at[3] or '0'
if earlier(time, ARGV[4]) or tonumber(commits) < tonumber(ARGV[5]) then return {'ROLLEDBACK', seq, time, commits} end
allowOOM(KEYS[1])
redis.call('HSET', KEYS[1], 'until', ms(t + tonumber(ARGV[2])), 'span', ARGV[2])
return {'OK'}
