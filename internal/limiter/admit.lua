-- admit processes leaves, admits waiters, and processes entries, in this order.
--
--! args  version policy declared keyed | leave* entry*
--! reply now waiting holding limited_until sweep idle admitted* verdict*
--
-- version: version of the policy, '' for none; policy: JSON; declared: the declaration; keyed: '1' if the limit has a key.
-- leave: a member; with the prefix '!at ' it leaves only if it was not active after the time at, ms.
-- entry: a member with the prefix '+', or '=' if it was admitted before.
-- limited_until: ms, 0 if rate and quota allow a grant now. sweep: '1' if the limit must be swept now to find the time of the next sweep,
-- because it has waiters and had none before, or because its waiters waited for a slot and now wait for the rate or the quota.
-- idle: ms since the last use (-1: the limit is new). admitted: former waiters.
-- A verdict is I (admitted) | W position deadline (waits) | F (too many waiters) | L until (limited, and the policy rejects) | T (timed
-- out) | C (cleared).
--
-- A member counts once, however often and in whatever role it is passed, and keeps its position. A repeated call changes only the times
-- of use. A rejection that is not recorded is the exception: it is repeated, and counted again.
local g = open(version, policy, declared)
window(g)
local queued, full, idle = g.queued, g.concurrency > 0 and g.holding >= g.concurrency, g.known and math.max(0, g.t - g.used) or -1

local ended = {a = 'c', q = 'w'}
local counter = {t = 't', c = 'cl'}
local moved = false
for i = 1, #leave do
  local at, m = string.match(leave[i], '^!(%d+) (.+)$')
  m = m or leave[i]
  local is = where(g, m)
  if is ~= '' and (not at or last_active(g, m) <= tonumber(at)) then
    if ended[is] then count(g, ended[is], 1) end
    move(g, m, '')
    moved = true
  end
end

local admitted = promote(g)

-- enter returns the verdict on one member. The position of a member that was waiting already is added at the end.
local function enter(m, active)
  local is = where(g, m)
  if is == 'a' or active then g.fresh[m] = true end -- the member is active: update its time
  if is == 'a' then return 'I' end
  if active then
    if is == '' then count(g, 'e', 1) elseif is ~= 'q' then count(g, counter[is], -1) end -- undo the count of the rejection
    move(g, m, 'a')
    return 'I'
  end
  if is == 'q' then return 'W' end
  if is == 't' then return 'T' end
  if is == 'c' then return 'C' end
  local free = room(g) > 0 and g.waiting == 0
  if not free and (g.reject or g.waiting >= g.limit) then
    count(g, 'r', 1)
    return g.reject and 'L' or 'F'
  end
  count(g, 'e', 1)
  if free then
    grant(g, m)
    return 'I'
  end
  queue(g, m)
  return 'W' .. ' ' .. ms(g.waiting) .. ' ' .. ms(deadline(g, g.last))
end

local reply = {}
for i = 1, #entry do
  reply[i] = enter(string.sub(entry[i], 2), string.sub(entry[i], 1, 1) == '=')
end

local used = moved or #admitted > 0 or #reply > 0 -- a leave of an unknown member is no use: such a call may be late, and the limit have no wakeup
if used then
  g.used = g.t
  g.set.u = ms(g.t)
end
if g.known or used then close(g, keyed) end
local till = limited(g)
for i, verdict in ipairs(reply) do
  if verdict == 'W' then
    local m = string.sub(entry[i], 2)
    if g.is[m] == 'q' then
      reply[i] = 'W ' .. ms(redis.call('ZRANK', waiters, m) + 1) .. ' ' .. ms(deadline(g, g.number[m] or redis.call('ZSCORE', waiters, m)))
    else
      reply[i] = 'I' -- a later entry of the same call has admitted it
    end
  elseif verdict == 'L' then
    reply[i] = 'L ' .. ms(till)
  end
end
local sweep = g.waiting > 0 and (not queued or full and till > 0 and g.holding < g.concurrency)
return {ms(g.t), ms(g.waiting), ms(g.holding), ms(till), sweep and '1' or '0', ms(idle), admitted, reply}
