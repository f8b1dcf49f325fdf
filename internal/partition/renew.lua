-- renew extends the ownership of a partition, unless Redis has lost acknowledged writes.
--
--! keys  partition
--! args  token span# acked_seq acked_time acked_commits#
--! reply FENCED | ROLLEDBACK sequence time commits | OK
--
-- span: ms; acked_seq, acked_time, acked_commits: the highest applied position, and the highest number of a commit, that were acknowledged to
-- this owner.
local t = now()
local o = redis.call('HMGET', partition, 'owner', 'until', 'span', 'seq', 'time', 'commits')
if o[1] ~= token or expired(o[2], o[3], t) then return {'FENCED'} end
local seq, time, commits = o[4] or '0', o[5] or '0', o[6] or '0'
if earlier(time, acked_time) or tonumber(commits) < acked_commits then return {'ROLLEDBACK', seq, time, commits} end
allowOOM(partition)
redis.call('HSET', partition, 'until', ms(t + span), 'span', ms(span))
return {'OK'}
