-- due: who must be looked at now. Each is put off by two seconds before anything is done
-- about it, so that an instance nobody can handle neither spins nor starves the others.
--
-- KEYS  1 partition  2 agenda
-- ARGV  1 token  2 how many at the most
-- answer  FENCED | OK now {instances} when the next one is due, ms, or ''
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local due = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ms(t), 'LIMIT', 0, ARGV[2])
for _, instance in ipairs(due) do redis.call('ZADD', KEYS[2], ms(t + 2000), instance) end
local first = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
return {'OK', ms(t), due, first[2] and ms(tonumber(first[2])) or ''}
