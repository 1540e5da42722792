-- Take an offer back; what was installed stays.
-- KEYS: offers changes
-- ARGV: name (project and version)
-- RETURNS: 1 | 0 when there was none
local was_there = redis.call("HDEL", KEYS[1], ARGV[1])
if was_there == 1 then
  redis.call("INCR", KEYS[2])
end
return was_there
