-- schedule sets the wakeup of a limit to now, unless it is due already.
--
--! keys  limits
--! args  limit
--! reply OK
advance(limits, limit, now())
return {'OK'}
