-- refuse: remember inputs that can not be used, newest first, where nobody is there to be told.
--
-- KEYS  1 partition  2 refused
-- ARGV  1 token  2 how many are kept  3 for how long, ms  then the entries
-- answer  FENCED | OK now
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
for k = 4, #ARGV do redis.call('LPUSH', KEYS[2], ARGV[k]) end
redis.call('LTRIM', KEYS[2], 0, tonumber(ARGV[2]) - 1)
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {'OK', ms(t)}
