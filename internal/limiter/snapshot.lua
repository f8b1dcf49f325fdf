-- snapshot reads all of a gate at one moment, for whoever checks it. It writes nothing.
--
-- KEYS   see gate.lua
-- Answer {now, {q with numbers}, {a}, {x}, {r}, {s}}
return {
  ms(now()), redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES'), redis.call('ZRANGE', KEYS[2], 0, -1), redis.call('ZRANGE', KEYS[3], 0, -1),
  redis.call('LRANGE', KEYS[4], 0, -1), redis.call('HGETALL', KEYS[5]),
}
