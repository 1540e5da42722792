-- Replace all sinks and rules, unless somebody did so since they were read; a new sink begins with what comes next.
-- With one that goes, all goes that is known of it. Should it come again, it is a new one.
-- KEYS: the alerts'
--       then of each sink that goes its hash and what is held for it
-- ARGV: revision that was read, alerts (JSON), by, then the names of the sinks
-- RETURNS: the revision now | nil
-- INCLUDES: sink_rules
if (redis.call("HGET", alerts, "revision") or "0") ~= ARGV[1] then
  return false
end
local kept = {}
for at = 4, #ARGV do
  kept["since:" .. ARGV[at]] = true
  redis.call("HSETNX", alerts, "since:" .. ARGV[at], newest_event())
end
for _, field in ipairs(redis.call("HKEYS", alerts)) do
  if string.sub(field, 1, 6) == "since:" and not kept[field] then
    redis.call("HDEL", alerts, field)
  end
end
for at = 6, #KEYS do
  redis.call("DEL", KEYS[at])
end
redis.call("HSET", alerts, "body", ARGV[2], "by", ARGV[3], "at_ms", string.format("%.0f", now_ms))
return redis.call("HINCRBY", alerts, "revision", 1)
