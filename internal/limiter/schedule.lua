-- schedule sets the wakeup of a limit to now. It puts nothing off.
--
--! keys  limits
--! args  limit
--! reply OK
advance(limits, limit, now())
return {'OK'}
