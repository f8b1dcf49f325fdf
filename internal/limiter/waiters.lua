-- waiters lists who waits. It writes nothing.
--
-- KEYS   queue
-- ARGV   1 how many to skip  2 where to end
-- Answer member, number, member, number, in order
return redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'WITHSCORES')
