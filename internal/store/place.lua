-- place executes a command on a key of a seized partition.
--
--! keys  partition target
--! args  token command | value*
--! reply FENCED | OK
--
-- value: at most a few thousand, because unpack fails for 8,000.
if fenced(partition, token, now()) then return {'FENCED'} end
redis.call(command, target, unpack(value, 1, #value))
return {'OK'}
