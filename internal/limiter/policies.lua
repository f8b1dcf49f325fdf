-- policies reads the policies that were set at run time. It writes nothing.
--
-- KEYS   policies
-- Answer level, policy, level, policy; and 'version', version
return redis.call('HGETALL', KEYS[1])
