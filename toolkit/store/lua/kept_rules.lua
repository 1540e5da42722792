-- The queue's rules for a step that a failover must not lose; put before a script that says `INCLUDES: kept_rules`.
-- KEYS: the queue's
-- ARGV: the script's own
-- RETURNS: nothing
-- INCLUDES: queue_rules

-- WAIT waits for what its own connection wrote. The same end told again over a new one would write nothing else, and count
-- as kept at once.
redis.call("HINCRBY", clock, "kept", 1)
