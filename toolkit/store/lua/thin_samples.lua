-- Put a thinned series in the place of the one that it was made of, and let it stay for another term.
-- KEYS: series
-- ARGV: bytes of the one that it was made of, ttl_ms, the thinned one ("" when nothing was to be thinned)
-- RETURNS: 1 | 0 when it has changed meanwhile
local series = KEYS[1]
if redis.call("STRLEN", series) ~= tonumber(ARGV[1]) then
  return 0
end
if ARGV[3] ~= "" then
  redis.call("SET", series, ARGV[3])
end
redis.call("PEXPIRE", series, ARGV[2])
return 1
