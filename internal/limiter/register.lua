-- register creates the limit of an action whose inputs all have a key, so that the action is known while the limits of its keys
-- are idle. It does not change a limit that exists.
--
--! args  version policy declared
--! reply OK
local g = open(version, policy, declared)
if not g.known then
  window(g)
  g.set.u = '0' -- it was never used: the first member that enters schedules it again, as a new one
  close(g, '0')
end
return {'OK'}
