-- waiters lists waiters in FIFO order. It writes nothing.
--
--! keys  waiters
--! args  skip last
--! reply waiter(member number)*
--
-- skip: number of waiters before the first one to list; last: index of the last one, from 0.
return redis.call('ZRANGE', waiters, skip, last, 'WITHSCORES')
