-- Leave no job to a node that says goodbye; its leases stay as they are, since its processes may go on.
-- KEYS: room sessions
-- ARGV: node, session
-- RETURNS: 1 | 0 when the name is another session's
local known = redis.call("HGET", KEYS[2], ARGV[1])
if not known or cjson.decode(known).session ~= ARGV[2] then
  return 0
end
redis.call("ZREM", KEYS[1], ARGV[1])
return 1
