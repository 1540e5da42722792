-- A node's goodbye: no job is left to it any more; its leases stay as they are, since its processes may go on.
-- KEYS: room beats sessions
-- ARGV: node, session
-- RETURNS: 1 | 0 when the name is another session's
local known = redis.call("HGET", KEYS[3], ARGV[1])
if not known or cjson.decode(known).session ~= ARGV[2] then
  return 0
end
redis.call("ZREM", KEYS[1], ARGV[1])
return 1
