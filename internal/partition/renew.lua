-- renew extends the ownership of a partition, if Redis still has what it has acknowledged.
--
--! keys  partition
--! args  token span# acked_seq acked_time acked_commits#
--! reply FENCED | ROLLEDBACK sequence time commits | OK
--
-- span: ms; acked_seq, acked_time: the highest applied position that was acknowledged to this owner; acked_commits: the highest number
-- of commits.
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
local at = redis.call('HMGET', partition, 'seq', 'time', 'commits')
local seq, time, commits = at[1] or '0', at[2] or '0', at[3] or '0'
if earlier(time, acked_time) or tonumber(commits) < acked_commits then return {'ROLLEDBACK', seq, time, commits} end
allowOOM(partition)
redis.call('HSET', partition, 'until', ms(t + span), 'span', ms(span))
return {'OK'}
