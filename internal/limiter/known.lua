-- known makes the gate of an action known whose inputs all have a key, so that the action is no stranger while the gates of its keys
-- are idle. It changes nothing of a gate that is known.
--
-- KEYS   see gate.lua
-- ARGV   1 version of the policy  2 policy, JSON  3 declaration
-- Answer OK
local g = open(ARGV[1], ARGV[2], ARGV[3])
if not g.known then
  window(g)
  g.set.u = '0' -- it was never used: who enters it first puts it on the list again, as of a new one
  close(g, '0')
end
return { 'OK' }
