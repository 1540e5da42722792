-- Drop eggs that nothing named when somebody looked, unless what nodes should hold has changed since that look.
-- KEYS: changes
--       then the eggs
-- ARGV: the number in changes at the look ("" for none)
-- RETURNS: how many were dropped | nil when something has changed, so that nothing was dropped
if (redis.call("GET", KEYS[1]) or "") ~= ARGV[1] then
  return nil
end
local dropped = 0
for at = 2, #KEYS do
  dropped = dropped + redis.call("DEL", KEYS[at])
end
return dropped
