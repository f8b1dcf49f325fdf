-- reconcile repairs the leases of an instance that has no turn to take, records why it is stalled, and sets the next wakeup.
--
-- An expired claim is removed, so that the activity can be dispatched again. The script itself checks token and expiry: a worker that has
-- claimed the lease in the meantime keeps it. If a lease is missing and the inbox is empty, Redis lost the lease: the history at this head
-- requires it, so it is created again.
--
--! keys  partition wakeups record inbox stalled stalled_set | key*
--! args  token instance head wakeup deferral reason max_claims# published | lease(effect proof)*
--! reply FENCED | CONFLICT head | OK now inbox_length lease*
--
-- wakeup: ms, or ''.
-- deferral: whether to defer the inbox: '' no, '1' yes, 'e' until the start of the instance arrives, 'n' and a number: yes if it has at
-- most that many inputs.
-- reason: why the instance is stalled; '' keeps the recorded reason, '-' removes it.
-- published: the watermark of the messages that are in the stream; '' keeps the recorded one.
-- key: the leases of the outstanding activities; lease: their effect ids and proof keys.
-- Each lease is reported as W claims returned_at (unclaimed; returned_at 0: no worker has returned it)
-- | C until claims span token worker (claimed) | X claims (the claim had expired) | P claims (claims exhausted)
-- | M (missing; its completion is unread) | R (missing, and created again).
local t = now()
if fenced(partition, token, t) then return {'FENCED'} end
if (redis.call('HGET', record, 'head') or '') ~= head then return {'CONFLICT', 'head'} end
local unread = redis.call('LLEN', inbox)
if unread == 0 and redis.call('EXISTS', record) == 0 then -- a late duplicate of a call for early inputs; there is no instance
  redis.call('HDEL', stalled, instance)
  redis.call('ZREM', wakeups, instance)
  return {'OK', ms(t), unread, {}}
end
local reply, revoke, recreate = {}, {}, {}
local next_wakeup = tonumber(wakeup)
for k = 1, #key do
  local l = redis.call('HMGET', key[k], 'e', 't', 'u', 'd', 'n', 'r', 'w')
  local n = l[5] or '0'
  if l[1] ~= lease[k].effect then
    if unread > 0 then
      reply[k] = 'M'
    else
      recreate[#recreate + 1] = k
      reply[k] = 'R'
    end
  elseif l[2] and not expired(l[3], l[4], t) then
    reply[k] = 'C ' .. l[3] .. ' ' .. n .. ' ' .. (l[4] or '0') .. ' ' .. l[2] .. ' ' .. (l[7] or '?')
    -- a claim that is not renewed is reconciled when it expires, not later
    if next_wakeup and tonumber(l[3]) + 1 < next_wakeup then next_wakeup = tonumber(l[3]) + 1 end
  elseif tonumber(n) >= max_claims then
    reply[k] = 'P ' .. n
  elseif l[2] then
    revoke[#revoke + 1] = key[k]
    reply[k] = 'X ' .. n
  else
    reply[k] = 'W ' .. n .. ' ' .. (l[6] or '0')
  end
end

allowOOM(partition)
for _, k in ipairs(revoke) do redis.call('HDEL', k, 't', 'w', 'u', 'd') end
for _, k in ipairs(recreate) do
  redis.call('DEL', key[k])
  redis.call('HSET', key[k], 'e', lease[k].effect, 'n', '0', 'c', ms(t), 'k', lease[k].proof)
end
-- The record of a stalled instance is marked, so that commits of other instances need not remove a reason. stalled_set contains the
-- instances with a marked record.
if reason == '-' then
  redis.call('HDEL', stalled, instance)
  redis.call('HDEL', record, 'stalled')
  redis.call('ZREM', stalled_set, instance)
elseif reason ~= '' then
  redis.call('HSET', stalled, instance, reason)
  if head ~= '' then
    redis.call('HSET', record, 'stalled', '1')
    redis.call('ZADD', stalled_set, '0', instance)
  end
end
if published ~= '' and head ~= '' then redis.call('HSET', record, 'pub', published) end
local known = tonumber(string.match(deferral, '^n(%d+)$') or '')
if known then deferral = unread <= known and '1' or '' end
schedule(wakeups, unread > 0 and redis.call('LINDEX', inbox, 0), instance, next_wakeup and ms(next_wakeup), deferral, t)
return {'OK', ms(t), unread, reply}
