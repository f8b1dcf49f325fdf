-- waiters lists waiters. It writes nothing.
--
--! keys  waiters
--! args  skip last
--! reply waiter(member number)*
--
-- last: the place at which to end. The waiters are in order.
return redis.call('ZRANGE', waiters, skip, last, 'WITHSCORES')
