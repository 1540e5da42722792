-- Drop eggs that nothing named when somebody looked, unless what nodes should hold has changed since that look.
-- KEYS: changes digests
--       then the eggs
-- ARGV: the number in changes at the look ("" for none), then the eggs' digests
-- RETURNS: how many were dropped | nil when something has changed, so that nothing was dropped
if (redis.call("GET", KEYS[1]) or "") ~= ARGV[1] then
  return nil
end
local dropped = 0
for at = 3, #KEYS do
  dropped = dropped + redis.call("DEL", KEYS[at])
  redis.call("SREM", KEYS[2], ARGV[at - 1])
end
return dropped
