-- list puts a gate on the list of its partition, to be looked at now. It puts nothing off.
--
-- KEYS   gates of the partition
-- ARGV   gate
hurry(KEYS[1], ARGV[1], now())
return { 'OK' }
