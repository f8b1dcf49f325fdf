-- admit takes leaves, lets in who waits, takes entries: in this order.
--
-- KEYS   see gate.lua
-- ARGV   1 version of the policy, '' for none  2 policy, JSON  3 declaration  4 '1' if the gate has a key
--        5 how many leave, then they, '!at ' before one that leaves only if nothing was heard of it after that time, ms
--        then those who enter, each with a sign before it: '+', or '=' if it has been let in
-- Answer {now, waiting, holding, limited until (0: it is not), '1' if it is to be swept now, to find when that is next: the queue was
--         empty and is not, or it has waited for a slot, and now waits for the time that rate and quota name;
--         ms since the last use (-1: it is new), {let in from the queue}, {for each that enters:
--         I in | W position deadline: waits | F the queue is full | L until: limited, and the policy rejects | T timed out | C cleared}}
--
-- A member counts once, whatever it is called with, and keeps its place. The repetition of a call changes nothing but the times
-- of use; only what is refused is refused again, and counted, for nothing remembers it.
local g = open(ARGV[1], ARGV[2], ARGV[3])
window(g)
local queued, full, rested = g.queued, g.concurrency > 0 and g.holding >= g.concurrency, g.known and math.max(0, g.t - g.used) or -1
local leaves = tonumber(ARGV[5])

local ended = { a = 'o', q = 'w' }
local moved = false
for i = 6, 5 + leaves do
  local at, m = string.match(ARGV[i], '^!(%d+) (.+)$')
  m = m or ARGV[i]
  local is = where(g, m)
  if is ~= '' and (not at or heard(g, m) <= tonumber(at)) then
    if ended[is] then count(g, ended[is], 1) end
    move(g, m, '')
    moved = true
  end
end

local into = promote(g)

-- enter decides about one member, and answers as above; the place of who waits already is found at the end.
local function enter(m, let)
  local is = where(g, m)
  if is == 'a' or let then g.fresh[m] = true end -- it is heard of
  if is == 'a' then return 'I' end
  if let then
    if is == '' then count(g, 'n', 1) elseif is ~= 'q' then count(g, is, -1) end -- it has not been turned away after all
    move(g, m, 'a')
    return 'I'
  end
  if is == 'q' then return 'W' end
  if is == 't' then return 'T' end
  if is == 'c' then return 'C' end
  local free = room(g) > 0 and g.waiting == 0
  if not free and (g.reject or g.waiting >= g.limit) then
    count(g, 'f', 1)
    return g.reject and 'L' or 'F'
  end
  count(g, 'n', 1)
  if free then
    grant(g, m)
    return 'I'
  end
  queue(g, m)
  return 'W' .. ' ' .. ms(g.waiting) .. ' ' .. ms(deadline(g, g.last))
end

local answer = {}
for i = 6 + leaves, #ARGV do
  answer[#answer + 1] = enter(string.sub(ARGV[i], 2), string.sub(ARGV[i], 1, 1) == '=')
end

local used = moved or #into > 0 or #answer > 0 -- not by who leaves and was not there: such a call may be late, and have listed nothing
if used then
  g.used = g.t
  g.set.u = ms(g.t)
end
if g.known or used then close(g, ARGV[4]) end
local till = limited(g)
for i, said in ipairs(answer) do
  if said == 'W' then
    local m = string.sub(ARGV[5 + leaves + i], 2)
    if g.is[m] == 'q' then
      answer[i] = 'W ' .. ms(redis.call('ZRANK', KEYS[1], m) + 1) .. ' ' .. ms(deadline(g, g.number[m] or redis.call('ZSCORE', KEYS[1], m)))
    else
      answer[i] = 'I' -- a later entry of the same call has said that it has been let in
    end
  elseif said == 'L' then
    answer[i] = 'L ' .. ms(till)
  end
end
local look = g.waiting > 0 and (not queued or full and till > 0 and g.holding < g.concurrency)
return { ms(g.t), ms(g.waiting), ms(g.holding), ms(till), look and '1' or '0', ms(rested), into, answer }
