-- place carries out a command on a key of a partition that is seized.
--
--! keys  partition target
--! args  token command | value*
--! reply FENCED | OK
--
-- value: at most a few thousand.
if fenced(partition, token, now()) then return {'FENCED'} end
redis.call(command, target, unpack(value, 1, #value))
return {'OK'}
