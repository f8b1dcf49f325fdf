-- ingest: a batch of messages moves from the stream into inboxes, together with the position.
--
-- KEYS  1 partition  2 agenda  then for each message: record, inbox, seen
-- ARGV  1 token  2,3 position it continues from (sequence, time)  4,5 position it reaches
--       6 bound of an inbox  7 how many message ids an instance remembers  8 for how long, ms
--       then for each message: instance, message id or '', 's' for a start, 'c' for a cancel or '', element
-- answer  FENCED | CONFLICT sequence time | DONE now (this batch has been taken before)
--       (a full inbox still takes the start of its instance, and, once, the mark that something was dropped behind it:
--       so the instance fails by name also if this owner dies before it can say so)
--       | OK now {for each message: d repeat | f inbox full | u cancel of an unknown instance | e<n> has a record | n<n> has none; n = length of the inbox}
local t = now()
if fenced(KEYS[1], ARGV[1], t) then return {'FENCED'} end
local at = redis.call('HMGET', KEYS[1], 'seq', 'time')
local seq, time = at[1] or '0', at[2] or '0'
if seq == ARGV[4] and time == ARGV[5] and (seq ~= ARGV[2] or time ~= ARGV[3]) then return {'DONE', ms(t)} end
if seq ~= ARGV[2] or time ~= ARGV[3] then return {'CONFLICT', seq, time} end

local bound, remember, span = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])
local count = (#ARGV - 8) / 4
local known, length, started, taken, answer = {}, {}, {}, {}, {}
for m = 1, count do -- read all of it before the first write
  local record, inbox, seen = KEYS[3 * m], KEYS[3 * m + 1], KEYS[3 * m + 2]
  local id, kind = ARGV[4 * m + 6], ARGV[4 * m + 7]
  if known[record] == nil then
    known[record] = redis.call('EXISTS', record) == 1
    length[inbox] = redis.call('LLEN', inbox)
    if not known[record] and length[inbox] > 0 then
      started[inbox] = string.sub(redis.call('LINDEX', inbox, 0), 1, 1) == '!'
    end
  end
  local before = id ~= '' and (taken[seen .. id] or redis.call('ZSCORE', seen, id))
  if before and tonumber(before) > t - span then
    answer[m] = 'd'
  elseif kind == 'c' and not known[record] and not started[inbox] then
    answer[m] = 'u'
  elseif length[inbox] >= bound and not (kind == 's' and not known[record] and not started[inbox]) then
    answer[m] = 'f'
  else
    if id ~= '' then taken[seen .. id] = t end
    length[inbox] = length[inbox] + 1
    answer[m] = (known[record] and 'e' or 'n') .. ms(length[inbox])
    -- the start of an unknown instance goes before what came early; a second start does not go before the first
    if kind == 's' and not known[record] and not started[inbox] then
      started[inbox] = true
      answer[m] = answer[m] .. '!'
    end
  end
end

for m = 1, count do
  local inbox, seen = KEYS[3 * m + 1], KEYS[3 * m + 2]
  local instance, id, element = ARGV[4 * m + 5], ARGV[4 * m + 6], ARGV[4 * m + 8]
  local said = answer[m]
  if said ~= 'd' and said ~= 'f' and said ~= 'u' then
    if string.sub(said, -1) == '!' then
      redis.call('LPUSH', inbox, element)
      answer[m] = string.sub(said, 1, -2)
    else
      redis.call('RPUSH', inbox, element)
    end
    if id ~= '' then
      redis.call('ZADD', seen, ms(t), id)
      redis.call('ZREMRANGEBYSCORE', seen, '-inf', ms(t - span))
      redis.call('ZREMRANGEBYRANK', seen, 0, -remember - 1)
      redis.call('PEXPIRE', seen, ms(span))
    end
  end
  if said == 'f' and string.sub(redis.call('LINDEX', inbox, -1), 1, 5) ~= 'full.' then
    redis.call('RPUSH', inbox, 'full.' .. ARGV[4] .. '\n' .. ms(t) .. '\n')
  end
  if said ~= 'd' and said ~= 'u' then hurry(KEYS[2], instance, t) end
end
redis.call('HSET', KEYS[1], 'seq', ARGV[4], 'time', ARGV[5])
return {'OK', ms(t), answer}
