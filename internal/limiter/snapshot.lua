-- snapshot reads a whole limit at one moment, for a check. It writes nothing.
--
--! keys  waiters holders rejected grants state
--! reply now waiter(member number)* holder* rejected* grant* state(field value)*
return {
  ms(now()), redis.call('ZRANGE', waiters, 0, -1, 'WITHSCORES'), redis.call('ZRANGE', holders, 0, -1), redis.call('ZRANGE', rejected, 0, -1),
  redis.call('LRANGE', grants, 0, -1), redis.call('HGETALL', state),
}
