-- policies reads the policies that were set at run time. It writes nothing.
--
--! keys  policies
--! reply level(level policy)* version
return redis.call('HGETALL', policies)
