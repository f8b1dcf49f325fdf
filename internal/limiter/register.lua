-- register creates the limit of an action whose inputs all have a key, so that the action is listed while the limits of its keys are
-- idle. It does not change an existing limit.
--
--! args  version policy declared
--! reply OK
local g = open(version, policy, declared)
if not g.known then
  window(g)
  g.set.u = '0' -- never used: the first entry schedules its wakeup, as for a new limit
  close(g, '0')
end
return {'OK'}
